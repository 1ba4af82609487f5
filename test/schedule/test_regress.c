/* Graphs that once went wrong, as the fuzzer left them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lower/lower.h"
#include "support/device.h"
#include "support/forms.h"
#include "support/graph.h"
#include "support/library.h"
#include "tenet/tenet.h"
#include <math.h>

typedef struct row {
  const char *name, *text;
} row;

static const row rows[] = {
    {"a sum up to each place, of what four places have in common, by more threads than there are places for",
     "%1 = iota i64[100] 100\n"
     "%2 = reshape i64[1,100] %1 1 100\n"
     "%3 = expand i64[100,100] %2 100 100\n"
     "%4 = cast i32[100,100] %3\n"
     "%5 = reshape i64[100,1] %1 100 1\n"
     "%6 = expand i64[100,100] %5 100 100\n"
     "%7 = cast i32[100,100] %6\n"
     "%8 = le bool[100,100] %4 %7\n"
     "%9 = param u64[25,1] 25 1 {7 0}\n"
     "%10 = expand u64[25,4] %9 25 4\n"
     "%11 = reshape u64[100] %10 100\n"
     "%12 = reshape u64[1,100] %11 1 100\n"
     "%13 = expand u64[100,100] %12 100 100\n"
     "%14 = const u64 {0}\n"
     "%15 = reshape u64[1,1] %14 1 1\n"
     "%16 = expand u64[100,100] %15 100 100\n"
     "%17 = where u64[100,100] %8 %13 %16\n"
     "%18 = sum u64[100] %17 {1}\n"
     "%19 = sink void %18 {\"outputs\"}\n"},
    {"a gradient of softmax, whose loads of a loop stand in front of it, and are loaded in another loop as well",
     "%1 = param f16[2,40,3] 2 40 3 {0 0}\n"
     "%2 = cast f32[2,40,3] %1\n"
     "%3 = rmax f32[2,3] %2 {1}\n"
     "%4 = reshape f32[2,1,3] %3 2 1 3\n"
     "%5 = detach f32[2,1,3] %4\n"
     "%6 = const f32 {-inf}\n"
     "%7 = reshape f32[1,1,1] %6 1 1 1\n"
     "%8 = expand f32[2,1,3] %7 2 1 3\n"
     "%9 = eq bool[2,1,3] %5 %8\n"
     "%10 = const f32 {0.0}\n"
     "%11 = reshape f32[1,1,1] %10 1 1 1\n"
     "%12 = expand f32[2,1,3] %11 2 1 3\n"
     "%13 = where f32[2,1,3] %9 %12 %5\n"
     "%14 = neg f32[2,1,3] %13\n"
     "%15 = expand f32[2,40,3] %14 2 40 3\n"
     "%16 = add f32[2,40,3] %2 %15\n"
     "%17 = exp f32[2,40,3] %16\n"
     "%18 = const f32 {1.0}\n"
     "%19 = reshape f32[1,1,1] %18 1 1 1\n"
     "%20 = expand f32[2,1,3] %19 2 1 3\n"
     "%21 = sum f32[2,3] %17 {1}\n"
     "%22 = reshape f32[2,1,3] %21 2 1 3\n"
     "%23 = where f32[2,1,3] %9 %20 %22\n"
     "%24 = expand f32[2,40,3] %23 2 40 3\n"
     "%25 = div f32[2,40,3] %17 %24\n"
     "%26 = cast f16[2,40,3] %25\n"
     "%27 = expand f32[2,40,3] %19 2 40 3\n"
     "%28 = param f16[2,40,3] 2 40 3 {1 0}\n"
     "%29 = cast f32[2,40,3] %28\n"
     "%30 = mul f32[2,40,3] %27 %29\n"
     "%31 = cast f16[2,40,3] %30\n"
     "%32 = cast f32[2,40,3] %31\n"
     "%33 = div f32[2,40,3] %32 %24\n"
     "%34 = mul f32[2,40,3] %33 %25\n"
     "%35 = neg f32[2,40,3] %34\n"
     "%36 = sum f32[2,3] %35 {1}\n"
     "%37 = reshape f32[2,1,3] %36 2 1 3\n"
     "%38 = where f32[2,1,3] %9 %12 %37\n"
     "%39 = reshape f32[2,3] %38 2 3\n"
     "%40 = reshape f32[2,1,3] %39 2 1 3\n"
     "%41 = expand f32[2,40,3] %40 2 40 3\n"
     "%42 = add f32[2,40,3] %33 %41\n"
     "%43 = mul f32[2,40,3] %42 %17\n"
     "%44 = cast f16[2,40,3] %43\n"
     "%45 = sink void %26 %44 {\"outputs\"}\n"},
    {"kernels side by side, of which one has an index that a constructor would write otherwise",
     "%1 = param u32[3] 3 {8 0}\n"
     "%2 = cast f32[3] %1\n"
     "%3 = param f32[31,40] 31 40 {7 0}\n"
     "%4 = param i8[1] 1 {2 0}\n"
     "%5 = param f16[31,40] 31 40 {0 0}\n"
     "%6 = gather f16[1,40] %5 %4\n"
     "%7 = cast f32[1,40] %6\n"
     "%8 = scatter f32[31,40] %3 %4 %7\n"
     "%9 = cast f16[31,40] %8\n"
     "%10 = sink void %2 %9 %9 {\"outputs\"}\n"},
    {"a number at permuted places, by groups that have a part each, which is no multiple of their threads",
     "%1 = const f32 {2.0}\n"
     "%2 = reshape f32[1] %1 1\n"
     "%3 = expand f32[2049] %2 2049\n"
     "%4 = iota i64[2049] 2049\n"
     "%5 = flip i64[2049] %4 {0}\n"
     "%6 = permutation i64[2049] %5\n"
     "%7 = param f32[2049] 2049 {0 0}\n"
     "%8 = rmin f32 %7 {0}\n"
     "%9 = reshape f32[1] %8 1\n"
     "%10 = expand f32[2049] %9 2049\n"
     "%11 = scatter f32[2049] %3 %6 %10\n"
     "%12 = sink void %11 {\"outputs\"}\n"},
    {"updates of a symbolic width at places that are known to differ, of which neighbours take one each",
     "%1 = var index {\"B\" 0 150}\n"
     "%2 = param u8[17,B] 17 %1 {0 0}\n"
     "%3 = param i32[70] 70 {1 0}\n"
     "%4 = distinct i32[70] %3\n"
     "%5 = param u8[70,B] 70 %1 {2 0}\n"
     "%6 = scatter u8[17,B] %2 %4 %5\n"
     "%7 = sink void %6 {\"outputs\"}\n"
     "# x1: fffffffc 9 1 ffffffff fffffff8 ffffffef ffffffdf 10 4 ffffffdd fffffff2 ffffffea ffffffee "
     "fffffffe ffffffed 6 13 16 ffffffec 1b ffffffe5 19 ffffffde ffffffe7 fffffff7 8 ffffffdb "
     "ffffffe3 3 fffffff5 e fffffff4 c fffffff3 12 f ffffffe9 18 ffffffeb ffffffda fffffffd ffffffe2 "
     "ffffffdc 2 ffffffd8 fffffff0 fffffff9 a b 17 ffffffe1 0 fffffff1 11 15 d fffffffa 1d 5 ffffffe4 "
     "ffffffe6 fffffffb 1c 1a ffffffd9 ffffffe0 14 7 ffffffe8 fffffff6\n"},
    {"a product that runs along a loop in lanes, beside a sum of each turn, whose loop stands between two over lanes",
     "%1 = iota i64[2] 2\n"
     "%2 = reshape i64[1,1,2,1] %1 1 1 2 1\n"
     "%3 = expand i64[3,2,2,16] %2 3 2 2 16\n"
     "%4 = cast i32[3,2,2,16] %3\n"
     "%5 = reshape i64[1,2,1,1] %1 1 2 1 1\n"
     "%6 = expand i64[3,2,2,16] %5 3 2 2 16\n"
     "%7 = cast i32[3,2,2,16] %6\n"
     "%8 = le bool[3,2,2,16] %4 %7\n"
     "%9 = param f32[3,1,2,16] 3 1 2 16 {1 0}\n"
     "%10 = expand f32[3,2,2,16] %9 3 2 2 16\n"
     "%11 = const f32 {1.0}\n"
     "%12 = reshape f32[1,1,1,1] %11 1 1 1 1\n"
     "%13 = expand f32[3,2,2,16] %12 3 2 2 16\n"
     "%14 = where f32[3,2,2,16] %8 %10 %13\n"
     "%15 = prod f32[3,2,16] %14 {2}\n"
     "%16 = cast f16[3,2,16] %15\n"
     "%17 = param f32[3,2,2,16] 3 2 2 16 {0 0}\n"
     "%18 = sum f32[3,2,16] %17 {1}\n"
     "%19 = reshape f32[3,1,2,16] %18 3 1 2 16\n"
     "%20 = reshape f32[3,2,16] %19 3 2 16\n"
     "%21 = cast f16[3,2,16] %20\n"
     "%22 = mul f16[3,2,16] %16 %21\n"
     "%23 = sink void %22 {\"outputs\"}\n"},
    {"a gather that is stored in the loops of its maxima and their sum, the outer one of which becomes lanes",
     "%1 = param f32[1,2,1,3,1,1,3,3,2,2,2,1] 1 2 1 3 1 1 3 3 2 2 2 1 {1 0}\n"
     "%2 = param i64[2] 2 {4 0}\n"
     "%3 = gather f32[2,2,1,3,1,1,3,3,2,2,2,1] %1 %2\n"
     "%4 = rmax f32[2,1,3,1,1,3,3,2,2,2,1] %3 {1}\n"
     "%5 = reshape f32[2,1,1,3,1,1,3,3,2,2,2,1] %4 2 1 1 3 1 1 3 3 2 2 2 1\n"
     "%6 = expand f32[2,2,1,3,1,1,3,3,2,2,2,1] %5 2 2 1 3 1 1 3 3 2 2 2 1\n"
     "%7 = add f32[2,2,1,3,1,1,3,3,2,2,2,1] %3 %6\n"
     "%8 = sum f32[2,1,3,1,1,3,3,2,2,2,1] %7 {1}\n"
     "%9 = sum f32 %8 {0 1 2 3 4 5 6 7 8 9 10}\n"
     "%10 = sink void %9 %9 %3 {\"outputs\"}\n"},
    {"sums of short rows, stored twice, and the sum of all, a row for each turn of a group",
     "%1 = param f32[8,1024] 8 1024 {0 0}\n"
     "%2 = sum f32[1024] %1 {0}\n"
     "%3 = sum f32 %2 {0}\n"
     "%4 = sink void %2 %2 %3 {\"outputs\"}\n"},
    {"the sum of a tensor that may be empty, whose merging is all that threads do",
     "%1 = var index {\"B\" 0 1}\n"
     "%2 = param f32[B,2048] %1 2048 {0 0}\n"
     "%3 = sum f32 %2 {0 1}\n"
     "%4 = sink void %3 {\"outputs\"}\n"},
    {"and on a device of many units",
     "%1 = param f32[8,16896] 8 16896 {0 0}\n"
     "%2 = sum f32[16896] %1 {0}\n"
     "%3 = sum f32 %2 {0}\n"
     "%4 = sink void %2 %2 %3 {\"outputs\"}\n"},
    {"the sum of all beside rows that are stored in another order than that of their axes",
     "%1 = param i32[40,15,1,1,8] 40 15 1 1 8 {0 0}\n"
     "%2 = permute i32[15,1,40,8,1] %1 {1 2 0 4 3}\n"
     "%3 = sum i32[15,40,8] %2 {1 4}\n"
     "%4 = pad i32[15,40,24] %3 0 0 0 0 0 16\n"
     "%5 = sum i32 %1 {0 1 2 3 4}\n"
     "%6 = reshape i32[1,1,1] %5 1 1 1\n"
     "%7 = expand i32[15,40,8] %6 15 40 8\n"
     "%8 = pad i32[15,40,24] %7 0 0 0 0 16 0\n"
     "%9 = add i32[15,40,24] %4 %8\n"
     "%10 = sink void %9 {\"outputs\"}\n"},
    {"a gather of one row that is stored, too, in the inner loop of what it is multiplied with",
     "%1 = param f32[3,1,2] 3 1 2 {2 0}\n"
     "%2 = param u32[1] 1 {4 0}\n"
     "%3 = gather f32[1,1,2] %1 %2\n"
     "%4 = expand f32[3,1,2] %3 3 1 2\n"
     "%5 = expand f32[3,2,2] %1 3 2 2\n"
     "%6 = contract f32[3,1,2] %1 %5 {1 1 1 1}\n"
     "%7 = mul f32[3,1,2] %4 %6\n"
     "%8 = cast u64[3,1,2] %7\n"
     "%9 = sink void %8 %8 %8 %3 {\"outputs\"}\n"},
    {"two sums of what is the same along a long axis, by their other axes in step",
     "%1 = var index {\"B\" 1 13}\n"
     "%2 = param f32[1,B,1,5] 1 %1 1 5 {0 0}\n"
     "%3 = param u32[1,1] 1 1 {6 0}\n"
     "%4 = expand u32[B,3] %3 %1 3\n"
     "%5 = gather f32[B,3,B,1,5] %2 %4\n"
     "%6 = rmin f32 %5 {0 1 2 3 4}\n"
     "%7 = reshape f32[1,1,1,1,1] %6 1 1 1 1 1\n"
     "%8 = expand f32[B,3,B,1,5] %7 %1 3 %1 1 5\n"
     "%9 = eq bool[B,3,B,1,5] %5 %8\n"
     "%10 = param f32[1,B,1,5] 1 %1 1 5 {5 0}\n"
     "%11 = gather f32[B,3,B,1,5] %10 %4\n"
     "%12 = param f32[1,1,1,1,1] 1 1 1 1 1 {4 0}\n"
     "%13 = expand f32[B,3,B,1,5] %12 %1 3 %1 1 5\n"
     "%14 = where f32[B,3,B,1,5] %9 %11 %13\n"
     "%15 = sum f32[1] %14 {0 1 2 4}\n"
     "%16 = reshape f32[1,1,1,1,1] %15 1 1 1 1 1\n"
     "%17 = reshape f32 %16\n"
     "%18 = cast f32[B,3,B,1,5] %9\n"
     "%19 = sum f32 %18 {0 1 2 3 4}\n"
     "%20 = div f32 %17 %19\n"
     "%21 = sink void %20 {\"outputs\"}\n"},
    {"a sum over all axes of a sum that is the same at all places",
     "%1 = param f64[1,1,2,3,3,3,1,1,1,1,3,1] 1 1 2 3 3 3 1 1 1 1 3 1 {0 0}\n"
     "%2 = sum f64[1,2,3,3,3,1,1,1,1,3,1] %1 {1}\n"
     "%3 = sum f64 %2 {0 1 2 3 4 5 6 7 8 9 10}\n"
     "%4 = reshape f64[1,1,1,1,1,1,1,1,1,1,1,1] %3 1 1 1 1 1 1 1 1 1 1 1 1\n"
     "%5 = expand f64[1,1,2,3,3,3,1,1,1,1,3,1] %4 1 1 2 3 3 3 1 1 1 1 3 1\n"
     "%6 = reshape f64[1,2,3,3,3,1,1,1,1,3,1] %5 1 2 3 3 3 1 1 1 1 3 1\n"
     "%7 = sum f64[1,1,1,1,1,1] %6 {1 2 3 4 9}\n"
     "%8 = sink void %7 {\"outputs\"}\n"},
    {"a size that many kernels want",
     "%1 = var index {\"B\" 1 13}\n"
     "%2 = mul index %1 5\n"
     "%3 = cast i64 %2\n"
     "%4 = reshape i64[1] %3 1\n"
     "%5 = mul index %1 2\n"
     "%6 = iota i64[B*2] %5\n"
     "%7 = expand i64[B*2] %4 %5\n"
     "%8 = lt bool[B*2] %6 %7\n"
     "%9 = mul index %1 3\n"
     "%10 = iota i64[B*3] %9\n"
     "%11 = expand i64[B*3] %4 %9\n"
     "%12 = lt bool[B*3] %10 %11\n"
     "%13 = mul index %1 4\n"
     "%14 = iota i64[B*4] %13\n"
     "%15 = expand i64[B*4] %4 %13\n"
     "%16 = lt bool[B*4] %14 %15\n"
     "%17 = mul index %1 6\n"
     "%18 = iota i64[B*6] %17\n"
     "%19 = expand i64[B*6] %4 %17\n"
     "%20 = lt bool[B*6] %18 %19\n"
     "%21 = mul index %1 7\n"
     "%22 = iota i64[B*7] %21\n"
     "%23 = expand i64[B*7] %4 %21\n"
     "%24 = lt bool[B*7] %22 %23\n"
     "%25 = mul index %1 8\n"
     "%26 = iota i64[B*8] %25\n"
     "%27 = expand i64[B*8] %4 %25\n"
     "%28 = lt bool[B*8] %26 %27\n"
     "%29 = mul index %1 9\n"
     "%30 = iota i64[B*9] %29\n"
     "%31 = expand i64[B*9] %4 %29\n"
     "%32 = lt bool[B*9] %30 %31\n"
     "%33 = mul index %1 10\n"
     "%34 = iota i64[B*10] %33\n"
     "%35 = expand i64[B*10] %4 %33\n"
     "%36 = lt bool[B*10] %34 %35\n"
     "%37 = mul index %1 11\n"
     "%38 = iota i64[B*11] %37\n"
     "%39 = expand i64[B*11] %4 %37\n"
     "%40 = lt bool[B*11] %38 %39\n"
     "%41 = mul index %1 12\n"
     "%42 = iota i64[B*12] %41\n"
     "%43 = expand i64[B*12] %4 %41\n"
     "%44 = lt bool[B*12] %42 %43\n"
     "%45 = mul index %1 13\n"
     "%46 = iota i64[B*13] %45\n"
     "%47 = expand i64[B*13] %4 %45\n"
     "%48 = lt bool[B*13] %46 %47\n"
     "%49 = mul index %1 14\n"
     "%50 = iota i64[B*14] %49\n"
     "%51 = expand i64[B*14] %4 %49\n"
     "%52 = lt bool[B*14] %50 %51\n"
     "%53 = mul index %1 15\n"
     "%54 = iota i64[B*15] %53\n"
     "%55 = expand i64[B*15] %4 %53\n"
     "%56 = lt bool[B*15] %54 %55\n"
     "%57 = mul index %1 16\n"
     "%58 = iota i64[B*16] %57\n"
     "%59 = expand i64[B*16] %4 %57\n"
     "%60 = lt bool[B*16] %58 %59\n"
     "%61 = sink void %8 %12 %16 %20 %24 %28 %32 %36 %40 %44 %48 %52 %56 %60 {\"outputs\"}\n"},
    {"maxima of one value repeated, and of many, compared",
     "%1 = param f32[1,1,1] 1 1 1 {1 0}\n"
     "%2 = expand f32[1,4096,1] %1 1 4096 1\n"
     "%3 = rmax f32[1,1] %2 {1}\n"
     "%4 = reshape f32[1,1,1] %3 1 1 1\n"
     "%5 = expand f32[1,4096,1] %4 1 4096 1\n"
     "%6 = param f32[1,4096,1] 1 4096 1 {0 0}\n"
     "%7 = rmax f32[1,1] %6 {1}\n"
     "%8 = reshape f32[1,1,1] %7 1 1 1\n"
     "%9 = expand f32[1,4096,1] %8 1 4096 1\n"
     "%10 = add f32[1,4096,1] %6 %9\n"
     "%11 = lt bool[1,4096,1] %5 %10\n"
     "%12 = sink void %11 {\"outputs\"}\n"},
    {"a choice between what turns out to be the same: its condition is a buffer of the kernel that nothing loads any "
     "more",
     "%1 = param bool[3,4] 3 4 {0 0}\n"
     "%2 = param bool[3,1] 3 1 {1 0}\n"
     "%3 = expand bool[3,4] %2 3 4\n"
     "%4 = iota i64[1] 1\n"
     "%5 = reshape i64[1,1,1] %4 1 1 1\n"
     "%6 = expand i64[3,4,1] %5 3 4 1\n"
     "%7 = contract i64[3,4] %4 %6 {0 0 2 1}\n"
     "%8 = reshape i64[1,1] %4 1 1\n"
     "%9 = expand i64[3,4] %8 3 4\n"
     "%10 = where i64[3,4] %1 %7 %9\n"
     "%11 = where i64[3,4] %3 %10 %7\n"
     "%12 = sink void %11 {\"outputs\"}\n"},
    {"elements stored in the loop of a product, of which there is another product",
     "%1 = param u16[4,5] 4 5 {0 0}\n"
     "%2 = reshape u16[1,4,1,5,1] %1 1 4 1 5 1\n"
     "%3 = expand u16[1,4,1,5,5] %2 1 4 1 5 5\n"
     "%4 = contig u16[1,4,1,5,5] %3\n"
     "%5 = prod u16[1,5,5] %4 {1 2}\n"
     "%6 = prod u16[1,5] %5 {2}\n"
     "%7 = expand u16[4,5] %6 4 5\n"
     "%8 = pad u16[4,10] %7 0 0 5 0\n"
     "%9 = sink void %8 {\"outputs\"}\n"},
    {"a sum over all rows of what another sum over them gives, beside what is stored for the rows",
     "%1 = param f32[118,38,1] 118 38 1 {0 0}\n"
     "%2 = reshape f32[118,1,38] %1 118 1 38\n"
     "%3 = sum f32 %2 {0 1 2}\n"
     "%4 = reshape f32[1,1,1] %3 1 1 1\n"
     "%5 = expand f32[118,1,38] %4 118 1 38\n"
     "%6 = sum f32 %5 {0 1 2}\n"
     "%7 = sink void %6 %1 %2 {\"outputs\"}\n"},
    {"a ninth loop, whose name is not that of a dtype, beside values of that dtype",
     "%1 = param f32[2,2,1,2,1,1,3] 2 2 1 2 1 1 3 {0 0}\n"
     "%2 = param i8 {1 0}\n"
     "%3 = gather f32[2,1,2,1,1,3] %1 %2\n"
     "%4 = fold f32[2,4,1,1,3] %3 4 {1 2 2 2}\n"
     "%5 = rmax f32[1,1] %4 {0 1 4}\n"
     "%6 = reshape f32[1,1,1,1,1] %5 1 1 1 1 1\n"
     "%7 = expand f32[2,4,1,1,3] %6 2 4 1 1 3\n"
     "%8 = mul f32[2,4,1,1,3] %7 %4\n"
     "%9 = rmax f32[2,4,1,1] %8 {4}\n"
     "%10 = reshape f32[2,4,1,1,1] %9 2 4 1 1 1\n"
     "%11 = expand f32[2,4,1,1,3] %10 2 4 1 1 3\n"
     "%12 = add f32[2,4,1,1,3] %8 %11\n"
     "%13 = sink void %12 {\"outputs\"}\n"},
    {"a sum over no axes, of -0", "%1 = param f16[3,2] 3 2 {0 0}\n"
                                  "%2 = sum f16[3,2] %1 {}\n"
                                  "%3 = sink void %2 {\"outputs\"}\n"},
    {"a sum stored for a row beside its copies along it", "%1 = param i8[113] 113 {0 0}\n"
                                                          "%2 = param i8[1,113] 1 113 {4 0}\n"
                                                          "%3 = expand i8[4,113] %2 4 113\n"
                                                          "%4 = contract i8[4] %1 %3 {0 0 1 1}\n"
                                                          "%5 = reshape i8[4,1] %4 4 1\n"
                                                          "%6 = expand i8[4,44] %5 4 44\n"
                                                          "%7 = sink void %6 %4 {\"outputs\"}\n"},
    {"a fold adds in the order of its source", "%1 = param f32[3,7] 3 7 {0 0}\n"
                                               "%2 = fold f32[9] %1 9 {0 7 1 1}\n"
                                               "%3 = sink void %2 {\"outputs\"}\n"},
    {"a stored value whose axes stand in another order than the reductions over it nest",
     "%1 = param u8[1,4,2,5] 1 4 2 5 {0 0}\n"
     "%2 = contig u8[1,4,2,5] %1\n"
     "%3 = prod u8[4,5] %2 {0 2}\n"
     "%4 = prod u8[4] %3 {1}\n"
     "%5 = sink void %4 {\"outputs\"}\n"},
    {"a reduction of a constant beside a store of it", "%1 = param bool[2,3,2] 2 3 2 {0 0}\n"
                                                       "%2 = eq bool[2,3,2] %1 %1\n"
                                                       "%3 = rmax bool[2,2] %2 {1}\n"
                                                       "%4 = sink void %2 %3 %2 {\"outputs\"}\n"},
    {"a reduction that does not depend on the axes it keeps, beside a store of its operand",
     "%1 = param i16[5,2] 5 2 {0 0}\n"
     "%2 = param i16[1,1,1,1] 1 1 1 1 {1 0}\n"
     "%3 = expand i16[5,3,7,2] %2 5 3 7 2\n"
     "%4 = contract i16[5,3,7] %1 %3 {1 0 2 1}\n"
     "%5 = rmin i16[3,7] %4 {0}\n"
     "%6 = sink void %5 %4 {\"outputs\"}\n"},
    {"a load from nothing moves out of a loop that never runs", "%1 = param i8[2,0] 2 0 {0 0}\n"
                                                                "%2 = permute i8[0,2] %1 {1 0}\n"
                                                                "%3 = window i8[0,1,2] %2 {1 2 3 1}\n"
                                                                "%4 = reshape i8[3,0,1,2] %3 3 0 1 2\n"
                                                                "%5 = sink void %4 {\"outputs\"}\n"},
    {"a reduction wanted by the updates of a scatter", "%1 = param i32[0,2] 0 2 {0 0}\n"
                                                       "%2 = prod i32[2] %1 {0}\n"
                                                       "%3 = reshape i32[1,2] %2 1 2\n"
                                                       "%4 = expand i32[0,2] %3 0 2\n"
                                                       "%5 = param i64 {1 0}\n"
                                                       "%6 = scatter i32[0,2] %1 %5 %2\n"
                                                       "%7 = add i32[0,2] %4 %6\n"
                                                       "%8 = sink void %7 {\"outputs\"}\n"},
    {"an output wanted by the updates of a scatter", "%1 = param i64[3,4,5] 3 4 5 {0 0}\n"
                                                     "%2 = param i32[5] 5 {1 0}\n"
                                                     "%3 = param i64[3,5] 3 5 {2 0}\n"
                                                     "%4 = param i64 {3 0}\n"
                                                     "%5 = gather i64[5] %3 %4\n"
                                                     "%6 = reshape i64[1,1,5] %5 1 1 5\n"
                                                     "%7 = expand i64[5,4,5] %6 5 4 5\n"
                                                     "%8 = scatter i64[3,4,5] %1 %2 %7\n"
                                                     "%9 = sink void %8 %8 %5 {\"outputs\"}\n"},
    {"index arithmetic over nothing means nothing", "%1 = param u32[1,3,4,1,5] 1 3 4 1 5 {0 0}\n"
                                                    "%2 = expand u32[0,3,4,1,5] %1 0 3 4 1 5\n"
                                                    "%3 = sum u32[0,1,5] %2 {1 2}\n"
                                                    "%4 = reshape u32[0,1,1,5] %3 0 1 1 5\n"
                                                    "%5 = reshape u32[0,4,5] %4 0 4 5\n"
                                                    "%6 = sink void %5 {\"outputs\"}\n"},
    {"a store of what is reduced in another order of axes", "%1 = param f64[2,4,5] 2 4 5 {0 0}\n"
                                                            "%2 = contig f64[2,4,5] %1\n"
                                                            "%3 = permute f64[5,4,2] %2 {2 1 0}\n"
                                                            "%4 = sum f64[4] %3 {0 2}\n"
                                                            "%5 = sink void %4 {\"outputs\"}\n"},
    {"loops of equal length, one of them inside another of its reduction, are not one",
     "%1 = param u8[3,2] 3 2 {0 0}\n"
     "%2 = reshape u8[3,1,2] %1 3 1 2\n"
     "%3 = expand u8[3,4,2] %2 3 4 2\n"
     "%4 = rmin u8[3] %3 {1 2}\n"
     "%5 = permute u8[2,3] %1 {1 0}\n"
     "%6 = rmax u8[3] %5 {0}\n"
     "%7 = sink void %4 %1 %6 {\"outputs\"}\n"},
    {"lanes do not run over a range that bounds another", "%1 = param i16[3,125] 3 125 {0 0}\n"
                                                          "%2 = xor i16[3,125] %1 %1\n"
                                                          "%3 = sum i16 %2 {0 1}\n"
                                                          "%4 = reshape i16[1,1] %3 1 1\n"
                                                          "%5 = expand i16[3,125] %4 3 125\n"
                                                          "%6 = sink void %5 {\"outputs\"}\n"},
    {"two stores of one kernel with loops of their own", "%1 = param f32[3,149,1] 3 149 1 {0 0}\n"
                                                         "%2 = pad f32[3,149,2] %1 0 0 0 0 0 1\n"
                                                         "%3 = pad f32[3,149,2] %1 0 0 0 0 1 0\n"
                                                         "%4 = add f32[3,149,2] %2 %3\n"
                                                         "%5 = param f32[3,1,2] 3 1 2 {1 0}\n"
                                                         "%6 = expand f32[3,149,2] %5 3 149 2\n"
                                                         "%7 = add f32[3,149,2] %4 %6\n"
                                                         "%8 = max f32[3,149,2] %7 %4\n"
                                                         "%9 = sum f32[3,2] %8 {1}\n"
                                                         "%10 = reshape f32[3,1,2] %9 3 1 2\n"
                                                         "%11 = expand f32[3,149,2] %10 3 149 2\n"
                                                         "%12 = add f32[3,149,2] %8 %11\n"
                                                         "%13 = reshape f32[3,1,149,2] %12 3 1 149 2\n"
                                                         "%14 = pad f32[6,149,2] %8 3 0 0 0 0 0\n"
                                                         "%15 = sink void %13 %14 {\"outputs\"}\n"},
    {"a row is kept once, not again in its own loop", "%1 = param i64[3,1,48] 3 1 48 {0 0}\n"
                                                      "%2 = reshape i64[3,1,48,1] %1 3 1 48 1\n"
                                                      "%3 = expand i64[3,1,48,10] %2 3 1 48 10\n"
                                                      "%4 = pow i64[3,1,48,10] %3 %3\n"
                                                      "%5 = fold i64[3,96,10] %4 96 {1 48 3 2}\n"
                                                      "%6 = rmin i64[10] %5 {0 1}\n"
                                                      "%7 = cast f32[10] %6\n"
                                                      "%8 = rmax f32 %7 {0}\n"
                                                      "%9 = reshape f32[1] %8 1\n"
                                                      "%10 = expand f32[10] %9 10\n"
                                                      "%11 = neg f32[10] %10\n"
                                                      "%12 = add f32[10] %7 %11\n"
                                                      "%13 = exp f32[10] %12\n"
                                                      "%14 = floor f32[10] %13\n"
                                                      "%15 = sum f32 %14 {0}\n"
                                                      "%16 = reshape f32[1] %15 1\n"
                                                      "%17 = expand f32[10] %16 10\n"
                                                      "%18 = add f32[10] %13 %17\n"
                                                      "%19 = sink void %18 {\"outputs\"}\n"},
    {"the loop of a kept row runs before all that wait for it", "%1 = param f32[7,5] 7 5 {0 0}\n"
                                                                "%2 = rmax f32[7] %1 {1}\n"
                                                                "%3 = reshape f32[7,1] %2 7 1\n"
                                                                "%4 = expand f32[7,5] %3 7 5\n"
                                                                "%5 = neg f32[7,5] %4\n"
                                                                "%6 = add f32[7,5] %1 %5\n"
                                                                "%7 = exp f32[7,5] %6\n"
                                                                "%8 = floor f32[7,5] %7\n"
                                                                "%9 = sum f32[7] %8 {1}\n"
                                                                "%10 = reshape f32[7,1] %9 7 1\n"
                                                                "%11 = expand f32[7,5] %10 7 5\n"
                                                                "%12 = add f32[7,5] %8 %11\n"
                                                                "%13 = sum f32 %12 {0 1}\n"
                                                                "%14 = sink void %13 %12 %9 %7 %2 {\"outputs\"}\n"},
    {"a reduction is not repeated by a loop that only a store stands in", "%1 = param f32[7,1,5,2] 7 1 5 2 {0 0}\n"
                                                                          "%2 = param f32[7,1,5,2] 7 1 5 2 {1 0}\n"
                                                                          "%3 = add f32[7,1,5,2] %1 %2\n"
                                                                          "%4 = floor f32[7,1,5,2] %3\n"
                                                                          "%5 = pad f32[7,2,5,2] %4 0 0 0 1 0 0 0 0\n"
                                                                          "%6 = sum f32[1,5,2] %4 {0}\n"
                                                                          "%7 = rmin f32[1,2] %6 {1}\n"
                                                                          "%8 = reshape f32[1,1,1,2] %7 1 1 1 2\n"
                                                                          "%9 = expand f32[7,1,5,2] %8 7 1 5 2\n"
                                                                          "%10 = pad f32[7,2,5,2] %9 0 0 1 0 0 0 0 0\n"
                                                                          "%11 = add f32[7,2,5,2] %5 %10\n"
                                                                          "%12 = sink void %11 {\"outputs\"}\n"},
    {"the loops of a kept row stand beside one another, not one in the other", "%1 = param f32[5,7] 5 7 {0 0}\n"
                                                                               "%2 = erf f32[5,7] %1\n"
                                                                               "%3 = reshape f32[1,5,7] %2 1 5 7\n"
                                                                               "%4 = expand f32[5,5,7] %3 5 5 7\n"
                                                                               "%5 = reshape f32[5,1,7] %2 5 1 7\n"
                                                                               "%6 = expand f32[5,5,7] %5 5 5 7\n"
                                                                               "%7 = min f32[5,5,7] %4 %6\n"
                                                                               "%8 = sink void %7 %2 {\"outputs\"}\n"},
    {"so for what a group reads", "%1 = param f32[5,2] 5 2 {0 0}\n"
                                  "%2 = contract f32[5,5] %1 %1 {0 1 1 1}\n"
                                  "%3 = floor f32[5,5] %2\n"
                                  "%4 = sum f32 %3 {0 1}\n"
                                  "%5 = sink void %4 {\"outputs\"}\n"},
    {"gather from an axis that may be empty", "%1 = var index {\"B\" 1 13}\n"
                                              "%2 = param bool[B,8] %1 8 {0 0}\n"
                                              "%3 = add index %1 -1\n"
                                              "%4 = shrink bool[B - 1,4] %2 1 0 %3 4 {1 2}\n"
                                              "%5 = param i32 {1 0}\n"
                                              "%6 = gather bool[4] %4 %5\n"
                                              "%7 = sink void %6 {\"outputs\"}\n"},
    {"sums that are split, of what is stored as well, over two axes that are not neighbours",
     "%1 = param i32[2,3,22001] 2 3 22001 {0 0}\n"
     "%2 = neg i32[2,3,22001] %1\n"
     "%3 = sum i32[3] %2 {0 2}\n"
     "%4 = sink void %2 %3 {\"outputs\"}\n"},
    {"few updates, of which there may be none, into many places", "%1 = var index {\"B\" 0 50}\n"
                                                                  "%2 = param f32[5000,2] 5000 2 {0 0}\n"
                                                                  "%3 = param i64[B] %1 {1 0}\n"
                                                                  "%4 = param f32[B,2] %1 2 {2 0}\n"
                                                                  "%5 = scatter f32[5000,2] %2 %3 %4\n"
                                                                  "%6 = sink void %5 {\"outputs\"}\n"},
    {"few updates of a symbolic width into many places", "%1 = var index {\"B\" 0 40}\n"
                                                        "%2 = param f32[300,B] 300 %1 {0 0}\n"
                                                        "%3 = param i64[40] 40 {1 0}\n"
                                                        "%4 = param f32[40,B] 40 %1 {2 0}\n"
                                                        "%5 = scatter f32[300,B] %2 %3 %4\n"
                                                        "%6 = sink void %5 {\"outputs\"}\n"},
    {"scatter into an axis that may be empty", "%1 = var index {\"B\" 1 13}\n"
                                               "%2 = param i8[B,8,4,2] %1 8 4 2 {0 0}\n"
                                               "%3 = add index %1 -1\n"
                                               "%4 = shrink i8[B - 1,3,4,2] %2 1 0 0 0 %3 3 4 2 {1 3 1 1}\n"
                                               "%5 = param i64[B] %1 {1 0}\n"
                                               "%6 = param i8[B,3,4,2] %1 3 4 2 {2 0}\n"
                                               "%7 = scatter i8[B - 1,3,4,2] %4 %5 %6\n"
                                               "%8 = sink void %7 {\"outputs\"}\n"},
    {"gather from and scatter into an axis whose interval reaches below 0",
     "%1 = var index {\"B\" 0 13}\n"
     "%2 = param i32[B,3] %1 3 {0 0}\n"
     "%3 = param i64[2] 2 {1 0}\n"
     "%4 = param i32[2,3] 2 3 {2 0}\n"
     "%5 = idiv index %1 2\n"
     "%6 = mul index %5 -1\n"
     "%7 = add index %1 %6\n"
     "%8 = shrink i32[B + B/2*-1,3] %2 0 0 %7 3 {1 1}\n"
     "%9 = scatter i32[B + B/2*-1,3] %8 %3 %4\n"
     "%10 = gather i32[2,3] %8 %3\n"
     "%11 = gather i32[2,3] %9 %3\n"
     "%12 = sink void %9 %10 %11 {\"outputs\"}\n"},
    {"an index from a value of a kept row keeps its order of addition", "%1 = var index {\"B\" 1 13}\n"
                                                                        "%2 = param f64[B,B,B] %1 %1 %1 {0 0}\n"
                                                                        "%3 = param i64[3] 3 {1 0}\n"
                                                                        "%4 = gather f64[3,B,B] %2 %3\n"
                                                                        "%5 = rmax f64[B] %4 {0 2}\n"
                                                                        "%6 = reshape f64[1,1,B] %5 1 1 %1\n"
                                                                        "%7 = expand f64[3,B,B] %6 3 %1 %1\n"
                                                                        "%8 = add f64[3,B,B] %4 %7\n"
                                                                        "%9 = sink void %8 {\"outputs\"}\n"},
    {"a choice between reductions that become one: as if it were a gate, nothing was stored where the condition fails",
     "%1 = param bool[1] 1 {1 0}\n"
     "%2 = param u16[7,1,8] 7 1 8 {0 0}\n"
     "%3 = rmax u16[1] %2 {0 2}\n"
     "%4 = rmax u16 %2 {0 1 2}\n"
     "%5 = reshape u16[1] %4 1\n"
     "%6 = where u16[1] %1 %3 %5\n"
     "%7 = where u16[1] %1 %5 %3\n"
     "%8 = sink void %6 %7 {\"outputs\"}\n"},
    {"a sum that gets a row of its own, in whose loop another row is kept",
     "%1 = var index {\"B\" 1 13}\n"
     "%2 = param f32[3,3,B] 3 3 %1 {0 0}\n"
     "%3 = exp f32[3,3,B] %2\n"
     "%4 = floor f32[3,3,B] %3\n" /* so that its sums are exact */
     "%5 = sum f32[3,B] %4 {0}\n"
     "%6 = reshape f32[1,3,B] %5 1 3 %1\n"
     "%7 = expand f32[3,3,B] %6 3 3 %1\n"
     "%8 = add f32[3,3,B] %4 %7\n"
     "%9 = rmax f32[B] %8 {0 1}\n"
     "%10 = reshape f32[1,1,B] %9 1 1 %1\n"
     "%11 = expand f32[3,3,B] %10 3 3 %1\n"
     "%12 = mul f32[3,3,B] %11 %7\n"
     "%13 = sink void %12 {\"outputs\"}\n"},
    {"what is kept for each element of a row is no row of that",
     "%1 = param f16[8,1,7,6] 8 1 7 6 {0 0}\n"
     "%2 = expand f16[8,5,7,6] %1 8 5 7 6\n"
     "%3 = rmax f16[8,5,7] %2 {3}\n"
     "%4 = reshape f16[8,5,7,1] %3 8 5 7 1\n"
     "%5 = expand f16[8,5,7,6] %4 8 5 7 6\n"
     "%6 = add f16[8,5,7,6] %2 %5\n"
     "%7 = cast f32[8,5,7,6] %6\n"
     "%8 = exp f32[8,5,7,6] %7\n"
     "%9 = add f32[8,5,7,6] %7 %8\n"
     "%10 = sum f32 %9 {0 1 2 3}\n"
     "%11 = sink void %10 {\"outputs\"}\n"},
    {"a sum over blocks that are all the same, beside what is stored for each of its rows",
     "%1 = const f32 {0.0}\n"
     "%2 = reshape f32[1,1] %1 1 1\n"
     "%3 = expand f32[512,48] %2 512 48\n"
     "%4 = exp f32[512,48] %3\n"
     "%5 = sum f32[512] %4 {1}\n"
     "%6 = reshape f32[512,1] %5 512 1\n"
     "%7 = log f32[512,1] %6\n"
     "%8 = neg f32[512,1] %7\n"
     "%9 = expand f32[512,48] %8 512 48\n"
     "%10 = add f32[512,48] %3 %9\n"
     "%11 = sum f32 %10 {0 1}\n"
     "%12 = expand f32[512,48] %6 512 48\n"
     "%13 = mul f32[512,48] %12 %4\n"
     "%14 = sink void %11 %13 {\"outputs\"}\n"},
    {"a sum over rows of what rests on another such sum, beside a store of the rows",
     "%1 = var index {\"B\" 1 150}\n"
     "%2 = param f32[B,1,1] %1 1 1 {2 0}\n"
     "%3 = permute f32[1,B,1] %2 {1 0 2}\n"
     "%4 = sum f32 %2 {0 1 2}\n"
     "%5 = reshape f32[1,1,1] %4 1 1 1\n"
     "%6 = expand f32[B,1,1] %5 %1 1 1\n"
     "%7 = sum f32 %6 {0 1 2}\n"
     "%8 = sink void %3 %7 {\"outputs\"}\n"},
    {"a row kept for each step of a sum, whose lanes would share it",
     "%1 = param f16[80,1] 80 1 {9 0}\n"
     "%2 = pad f16[80,2] %1 0 0 0 1\n"
     "%3 = exp f16[80,2] %2\n"
     "%4 = sum f16[80] %3 {1}\n"
     "%5 = reshape f16[80,1] %4 80 1\n"
     "%6 = expand f16[80,2] %5 80 2\n"
     "%7 = add f16[80,2] %3 %6\n"
     "%8 = sum f16[80] %7 {1}\n"
     "%9 = param f16[1,80] 1 80 {8 0}\n"
     "%10 = contract f16[1] %8 %9 {0 0 1 1}\n"
     "%11 = sink void %10 {\"outputs\"}\n"},
    {"a product of one row that many share, loaded across its few columns: its sums stand outside of the rows",
     "%1 = param bf16[1,16] 1 16 {0 0}\n"
     "%2 = expand bf16[1415,16] %1 1415 16\n"
     "%3 = param bf16[15,16] 15 16 {1 0}\n"
     "%4 = contract bf16[1415,15] %2 %3 {0 1 1 1}\n"
     "%5 = sink void %4 {\"outputs\"}\n"},
    {"a row that is repeated, stored beside its sum, whose loop along the repeated axis the store needs",
     "%1 = param f32[1,3] 1 3 {0 0}\n"
     "%2 = expand f32[2,3] %1 2 3\n"
     "%3 = sum f32 %2 {0 1}\n"
     "%4 = sink void %3 %2 {\"outputs\"}\n"},
    {"as often as it is long",
     "%1 = param f64[1,4] 1 4 {0 0}\n"
     "%2 = expand f64[4,4] %1 4 4\n"
     "%3 = sum f64 %2 {0 1}\n"
     "%4 = sink void %3 %2 {\"outputs\"}\n"},
    {"and a column that is repeated",
     "%1 = param i32[3,1] 3 1 {0 0}\n"
     "%2 = expand i32[3,5] %1 3 5\n"
     "%3 = rmax i32 %2 {0 1}\n"
     "%4 = sink void %3 %2 {\"outputs\"}\n"},
};

/* What only compiled code shows. */
static const row compiled[] = {
    {"a sum of a greatest of bf16 that becomes f64: three loops with two accumulators, of which the last is narrower",
     "%1 = param bf16[2,17] 2 17 {17 0}\n"
     "%2 = rmax bf16[17] %1 {0}\n"
     "%3 = reshape bf16[1,17] %2 1 17\n"
     "%4 = expand bf16[2,17] %3 2 17\n"
     "%5 = sum bf16[17] %4 {0}\n"
     "%6 = cast f64[17] %5\n"
     "%7 = sink void %6 {\"outputs\"}\n"},
    {"is a place that was cut the last one?", "%1 = iota i64[7] 7\n"
                                              "%2 = const i64 {6}\n"
                                              "%3 = reshape i64[1] %2 1\n"
                                              "%4 = expand i64[7] %3 7\n"
                                              "%5 = eq bool[7] %1 %4\n"
                                              "%6 = param f64[7] 7 {0 0}\n"
                                              "%7 = param f64[7] 7 {1 0}\n"
                                              "%8 = where f64[7] %5 %6 %7\n"
                                              "%9 = param i16[90] 90 {2 0}\n"
                                              "%10 = gather f64[90] %8 %9\n"
                                              "%11 = ne bool[7] %1 %4\n"
                                              "%12 = where f64[7] %11 %6 %7\n"
                                              "%13 = gather f64[90] %12 %9\n"
                                              "%14 = sink void %10 %13 {\"outputs\"}\n"},
    {"functions of a NaN that is known before anything runs", "%1 = param f32[0,3] 0 3 {0 0}\n"
                                                              "%2 = sum f32 %1 {0 1}\n"
                                                              "%3 = const f32 {0.0}\n"
                                                              "%4 = div f32 %2 %3\n"
                                                              "%5 = trunc f32 %4\n"
                                                              "%6 = floor f32 %4\n"
                                                              "%7 = ceil f32 %4\n"
                                                              "%8 = round f32 %4\n"
                                                              "%9 = exp f32 %4\n"
                                                              "%10 = sink void %5 %6 %7 %8 %9 {\"outputs\"}\n"},
    {"functions of f64 of which gcc knows what one does to another's result",
     "%1 = param f64[4] 4 {0 0}\n"
     "%2 = atan f64[4] %1\n"
     "%3 = sin f64[4] %2\n"
     "%4 = param f64[4] 4 {1 0}\n"
     "%5 = atan f64[4] %4\n"
     "%6 = cos f64[4] %5\n"
     "%7 = param f64[4] 4 {2 0}\n"
     "%8 = atanh f64[4] %7\n"
     "%9 = sinh f64[4] %8\n"
     "%10 = param f64[4] 4 {3 0}\n"
     "%11 = atanh f64[4] %10\n"
     "%12 = cosh f64[4] %11\n"
     "%13 = sink void %3 %6 %9 %12 {\"outputs\"}\n"
     "# x0: c0105d97f62b6ae8 400e0cb295e9e1b1 7ff0000000000000 bff6666666666666\n"
     "# x1: c0105d97f62b6ae8 400e0cb295e9e1b1 7ff0000000000000 bff6666666666666\n"
     "# x2: 3fe1eb851eb851ec bfd16f0068db8bac 3feccccccccccccd 3f947ae147ae147b\n"
     "# x3: 3fe1eb851eb851ec bfd16f0068db8bac 3feccccccccccccd 3f947ae147ae147b\n"},
    {"a sum in the order written, in mode strict, where a library would like another order of the axes",
     "%1 = param f32[2,3,3,3] 2 3 3 3 {0 0}\n"
     "%2 = permute f32[3,3,3,2] %1 {2 1 3 0}\n"
     "%3 = reshape f32[1,3,3,3,2] %2 1 3 3 3 2\n"
     "%4 = param f32[1,1,3,2] 1 1 3 2 {1 0}\n"
     "%5 = contract f32[1,3,3,1] %3 %4 {1 2 1 2}\n"
     "%6 = sink void %5 {\"outputs\"}\n"
     "# x0: 3fcf41f2 3faa0903 bfc35254 3f84c7e3 bf6a0c4a bc422681 bec31f8a 3f4e809d bd02a993 be3f06f7 bf54d014 "
     "bc2cd9e8 bf537803 bf945048 bf93089a bf041206 3f9f86c2 bb68a71e 3f3676c9 3f47ced9 3f7de69b bf8a31f9 bf305f07 "
     "3e2240b8 bfab6fd2 3b95182b bf4889a0 be78adac beed35a8 bf8f81d8 3fcb7803 bfd182aa bf700d1b bdfdd97f "
     "bf417247 3f8da9fc "
     "3edd6388 3fafc361 3f9d8e22 bfa2d773 bebb367a 3f6edfa4 bfb24f76 bf53295f 3f674880 3fa46c22 bfb9a512 3f0f41f2 "
     "bf98bc6a 3f1264c3 bfcd013b 3f4aa305 3f9315b5 3e49eecc\n"
     "# x1: bf59ff2e*6\n"},
    {"least of what is negated, which an assembler made the least of what is not",
     "%1 = param i32[1,5,2] 1 5 2 {0 0}\n"
     "%2 = neg i32[1,5,2] %1\n"
     "%3 = rmin i32 %2 {0 1 2}\n"
     "%4 = rmax i32[5] %2 {0 2}\n"
     "%5 = sink void %3 %4 {\"outputs\"}\n"
     "# x0: fffffffe 7 3 2 fffffffd fffffffe 0 fffffffc 0 4\n"},
    {"outputs that turn out to be one input, three times, beside a product whose axes are put in another order",
     "%1 = param f32[2,1,9,2] 2 1 9 2 {0 0}\n"
     "%2 = param f32[2,3,3,3] 2 3 3 3 {1 0}\n"
     "%3 = permute f32[3,3,3,2] %2 {1 2 3 0}\n"
     "%4 = contract f32[2,1,9,3,3,3] %1 %3 {0 3 3 1}\n"
     "%5 = permute f32[2,3,1,3,9,3] %4 {0 3 1 4 2 5}\n"
     "%6 = fold f32[2,3,1,3,11] %5 11 {4 3 1 1}\n"
     "%7 = param f32[3] 3 {2 0}\n"
     "%8 = param u32[0,8] 0 8 {3 0}\n"
     "%9 = param f32[0,8] 0 8 {4 0}\n"
     "%10 = scatter f32[3] %7 %8 %9\n"
     "%11 = sink void %6 %10 %10 %10 {\"outputs\"}\n"},
    {"arithmetic on bool",
     "%1 = param bool[5,1] 5 1 {0 0}\n"
     "%2 = abs bool[5,1] %1\n"
     "%3 = pow bool[5,1] %1 %2\n"
     "%4 = sink void %2 %3 {\"outputs\"}\n"},
    {"a short reduction of what is 0 or 1: gcc 12 summed up masks",
     "%1 = param u8[40,8] 40 8 {0 0}\n"
     "%2 = const u8 {3}\n"
     "%3 = reshape u8[1,1] %2 1 1\n"
     "%4 = expand u8[40,8] %3 40 8\n"
     "%5 = lt bool[40,8] %1 %4\n"
     "%6 = cast u8[40,8] %5\n"
     "%7 = sum u8[40] %6 {1}\n"
     "%8 = rmax u8[40] %6 {1}\n"
     "%9 = sink void %7 %8 {\"outputs\"}\n"},
    {"and of quotients that are 0 or 1",
     "%1 = param u16[40,8] 40 8 {0 0}\n"
     "%2 = idiv u16[40,8] %1 %1\n"
     "%3 = rmin u16[40] %2 {1}\n"
     "%4 = sink void %3 {\"outputs\"}\n"},
};

static void check(const row *r, const char *device, tn_mode mode, form f) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device_or(device), .mode = mode, .quiet = 1});
  graph g;
  char why[512];
  assert_non_null(c);
  if (f != PLAIN) take_form(tn__device_get(c, 0), f);
  if (!graph_parse(c, r->text, 1, mode != TN_MODE_STRICT, &g)) fail_msg("%s: %s", r->name, tn_last_error(c)->text);
  if (!graph_agrees_always(c, &g, why, sizeof why)) fail_msg("%s (mode %d, form %d): %s", r->name, mode, (int)f, why);
  graph_free(c, &g);
  tn_ctx_close(c);
}

static const char *const guises[] = {"ref:cpu", "ref:sm_80", "ref:sm_90", "ref:opencl"};

static void all_rows(void **s) {
  (void)s;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int mode = TN_MODE_DEFAULT; mode <= TN_MODE_STRICT; mode++) {
      for (int f = 0; f < FORMS; f++) check(&rows[i], "ref", (tn_mode)mode, (form)f);
      for (size_t g = 0; g < sizeof guises / sizeof *guises; g++) check(&rows[i], guises[g], (tn_mode)mode, PLAIN);
    }
}

static void compiled_rows(void **s) {
  (void)s;
  for (size_t i = 0; i < sizeof compiled / sizeof *compiled; i++)
    for (int mode = TN_MODE_DEFAULT; mode <= TN_MODE_STRICT; mode++) check(&compiled[i], "cpu", (tn_mode)mode, PLAIN);
}

/* What a library multiplies or convolves, by kernels of ours, as tuning tries it: halves add up in f32 there, too. */
static void own_rows(void **s) {
  static const row called[] = {
      {"a product of f16", "%1 = param f16[18,2,14] 18 2 14 {0 0}\n"
                           "%2 = param f16[13,14] 13 14 {1 0}\n"
                           "%3 = contract f16[18,2,13] %1 %2 {0 2 1 1}\n"
                           "%4 = sink void %3 {\"outputs\"}\n"},
      {"products of bf16", "%1 = param bf16[3,18,24] 3 18 24 {0 0}\n"
                           "%2 = param bf16[3,13,24] 3 13 24 {1 0}\n"
                           "%3 = contract bf16[3,18,13] %1 %2 {1 1 1 1}\n"
                           "%4 = sink void %3 {\"outputs\"}\n"},
      {"a product of f16 with a row and a function", "%1 = param f16[36,14] 36 14 {0 0}\n"
                                                     "%2 = param f16[13,14] 13 14 {1 0}\n"
                                                     "%3 = contract f16[36,13] %1 %2 {0 1 1 1}\n"
                                                     "%4 = param f16[13] 13 {2 0}\n"
                                                     "%5 = reshape f16[1,13] %4 1 13\n"
                                                     "%6 = expand f16[36,13] %5 36 13\n"
                                                     "%7 = add f16[36,13] %3 %6\n"
                                                     "%8 = const f16 {0.0}\n"
                                                     "%9 = reshape f16[1,1] %8 1 1\n"
                                                     "%10 = expand f16[36,13] %9 36 13\n"
                                                     "%11 = max f16[36,13] %7 %10\n"
                                                     "%12 = sink void %11 {\"outputs\"}\n"},
  };
  (void)s;
  for (size_t i = 0; i < sizeof called / sizeof *called; i++)
    for (uint32_t v = 0; tn__variant_at(v); v++) {
      if (v && !tn__variant_at(v)->own) continue;
      tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
      assert_non_null(c);
      tn__device *d = tn__device_get(c, 0);
      d->usual = tn__variant_at(v);
      library_put(d);
      for (uint64_t seed = 1; seed < 4; seed++) {
        graph g;
        char why[512];
        assert_true(graph_parse(c, called[i].text, seed, false, &g));
        if (!graph_agrees_always(c, &g, why, sizeof why))
          fail_msg("%s, %s: %s", called[i].name, tn__variant_at(v)->name, why);
        graph_free(c, &g);
      }
      tn_ctx_close(c);
    }
}

/* With a library, but on the CPU. */
static void shared_operand(void **s) {
  static const row r = {
      "an operand of two products, of which one wants it stored in an order that is no matrix for the other",
      "%1 = param f32[4,1,2,1] 4 1 2 1 {0 0}\n"
      "%2 = expand f32[4,4,2,1] %1 4 4 2 1\n"
      "%3 = param f32[2,4,6,4,2,1] 2 4 6 4 2 1 {1 0}\n"
      "%4 = contract f32[4,2,4,6] %2 %3 {0 1 3 3}\n"
      "%5 = permute f32[2,4,4,6] %4 {1 0 2 3}\n"
      "%6 = rmax f32[2,4] %5 {2 3}\n"
      "%7 = reshape f32[2,4,1,1] %6 2 4 1 1\n"
      "%8 = expand f32[2,4,4,6] %7 2 4 4 6\n"
      "%9 = permute f32[2,4,6,4] %8 {0 2 3 1}\n"
      "%10 = permute f32[4,2,1,4] %2 {1 2 3 0}\n"
      "%11 = contract f32[2,4,6,4,2,1] %9 %10 {0 3 3 1}\n"
      "%12 = permute f32[2,4,4,2,6,1] %11 {0 3 1 4 2 5}\n"
      "%13 = fold f32[2,4,4,2,6] %12 6 {4 1 1 2}\n"
      "%14 = sink void %13 {\"outputs\"}\n"};
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:cpu", .quiet = 1});
  graph g;
  char why[512];
  assert_non_null(c);
  library_put(tn__device_get(c, 0));
  assert_true(graph_parse(c, r.text, 1, false, &g));
  if (!graph_agrees_always(c, &g, why, sizeof why)) fail_msg("%s: %s", r.name, why);
  graph_free(c, &g);
  tn_ctx_close(c);
}

/* Steps on a tensor of sizes 2, each of them a mean over all axes but the first, beside what `step` does by hand. */
enum { MOST = 1 << 12 };

static void step(float *x, const float *x0, int n) {
  for (int half = 0; half < 2; half++) {
    float *its = x + half * (n / 2);
    double sum = 0;
    for (int i = 0; i < n / 2; i++) sum += tanh((double)its[i]);
    for (int i = 0; i < n / 2; i++)
      its[i] = (float)(0.9 * (double)its[i] + 0.1 * (double)x0[half * (n / 2) + i] + 0.05 * sum / (n / 2));
  }
}

static void steps(const char *device, tn_mode mode, int rank, int count, bool stored) {
  static float from[MOST], want[MOST], got[MOST];
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .mode = mode, .quiet = 1, .no_library = 1});
  tn_dim shape[TN_MAX_RANK];
  int axes[TN_MAX_RANK], n = 1 << rank;
  assert_non_null(c);
  for (int i = 0; i < rank; i++) shape[i] = 2, axes[i] = i;
  for (int i = 0; i < n; i++) from[i] = want[i] = (float)(i * 37 % 101) / 50 - 1;
  for (int i = 0; i < count; i++) step(want, from, n);
  tn_scope(c) {
    tn_tensor *x0 = tn_from(c, TN_F32, shape, rank, from), *x = x0;
    for (int i = 0; i < count; i++) {
      tn_tensor *mean = tn_mean(tn_tanh(x), axes + 1, rank - 1, true);
      x = tn_add(tn_add(tn_mul_scalar(x, 0.9), tn_mul_scalar(x0, 0.1)), tn_mul_scalar(mean, 0.05));
      if (stored) x = tn_contiguous(x);
    }
    if (tn_read(x, got, (size_t)n * sizeof *got) != TN_OK)
      fail_msg("%s, mode %d, rank %d, %d steps: %s", device, (int)mode, rank, count, tn_last_error(c)->text);
  }
  for (int i = 0; i < n; i++)
    if (!(fabs((double)got[i] - (double)want[i]) < 1e-4))
      fail_msg("%s, rank %d, %d steps: [%d] is %g, not %g", device, rank, count, i, (double)got[i], (double)want[i]);
  tn_ctx_close(c);
}

/* Twelve axes in each of six steps: more loops than a kernel may have. */
static void many_axes(void **s) {
  static const char *const device[] = {"ref", "cpu", "ref:cpu", "ref:sm_90", "ref:opencl"};
  (void)s;
  for (size_t d = 0; d < sizeof device / sizeof *device; d++)
    for (int stored = 0; stored < 2; stored++) steps(device[d], TN_MODE_DEFAULT, 12, 6, stored);
  steps("ref", TN_MODE_STRICT, 12, 6, true);
}

/* More kernels, each of which needs the one before, than numbers were once left before they meant something. */
static void many_kernels(void **s) {
  (void)s;
  steps("ref:sm_90", TN_MODE_DEFAULT, 7, 3400, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_rows), cmocka_unit_test(compiled_rows),
                                     cmocka_unit_test(own_rows), cmocka_unit_test(shared_operand),
                                     cmocka_unit_test(many_axes), cmocka_unit_test(many_kernels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
