(* What the ops mean over the reals, what their slopes are, and the tactics that close the rows of gradient.rules. The
   exporter prints each row with these names; nothing here is printed from the table.  A row is proved when the slope
   that its template gives equals the one known here: so every op has a lemma in the hint base `slopes` (one source)
   or `joint` (two). *)
Require Import Reals Lra Lia ZArith.
From Coquelicot Require Import Coquelicot.
Open Scope R_scope.

(* ---- denotations ------------------------------------------------------------------------------------------------- *)

Definition whole (x : R) := exists n : Z, x = IZR n.
Definition fraction (x : R) := ~ whole x.

Definition o_neg (x : R) := - x.
Definition o_abs (x : R) := Rabs x.
Definition o_sign (x : R) := if Rlt_dec 0 x then 1 else if Rlt_dec x 0 then -1 else 0.
Definition o_sqrt (x : R) := sqrt x.
Definition o_exp (x : R) := exp x.
Definition o_exp2 (x : R) := exp (x * ln 2).
Definition o_expm1 (x : R) := exp x - 1.
Definition o_log (x : R) := ln x.
Definition o_log2 (x : R) := ln x / ln 2.
Definition o_log10 (x : R) := ln x / ln 10.
Definition o_log1p (x : R) := ln (1 + x).
Definition o_sin (x : R) := sin x.
Definition o_cos (x : R) := cos x.
Definition o_tan (x : R) := sin x / cos x.
Definition o_cbrt (x : R) := (* the root with the sign of x *)
  if Rlt_dec 0 x then exp (ln x / 3) else if Rlt_dec x 0 then - exp (ln (- x) / 3) else 0.
Definition o_asin (x : R) := asin x.
Definition o_acos (x : R) := acos x.
Definition o_atan (x : R) := atan x.
Definition o_sinh (x : R) := (exp x - exp (- x)) / 2.
Definition o_cosh (x : R) := (exp x + exp (- x)) / 2.
Definition o_asinh (x : R) := ln (x + sqrt (x * x + 1)).
Definition o_acosh (x : R) := ln (x + sqrt (x * x - 1)).
Definition o_atanh (x : R) := ln ((1 + x) / (1 - x)) / 2.
Definition o_tanh (x : R) := (exp x - exp (- x)) / (exp x + exp (- x)).
Definition o_erf (x : R) := 2 / sqrt PI * RInt (fun t => exp (- (t * t))) 0 x.
Definition o_erfc (x : R) := 1 - o_erf x.
Definition o_floor (x : R) := IZR (Int_part x).
Definition o_ceil (x : R) := - o_floor (- x).
Definition o_trunc (x : R) := if Rlt_dec x 0 then o_ceil x else o_floor x.
Definition o_round (x : R) := (* halves to even *)
  let r := x - o_floor x in
  if Rlt_dec r (1/2) then o_floor x else if Rlt_dec (1/2) r then o_floor x + 1
  else if Z.even (Int_part x) then o_floor x else o_floor x + 1.
Definition o_add (x y : R) := x + y.
Definition o_mul (x y : R) := x * y.
Definition o_div (x y : R) := x / y.
Definition o_idiv (x y : R) := o_floor (x / y).
Definition o_mod (x y : R) := x - y * o_floor (x / y).
Definition o_fmod (x y : R) := x - y * o_trunc (x / y).
Definition o_pow (x y : R) := (* where there is no real power: 1, of which no row is true *)
  if Rlt_dec 0 x then exp (y * ln x)
  else if Req_EM_T x 0 then if Rle_dec y 0 then 1 else 0
  else if Req_EM_T y (o_floor y) then powerRZ x (Int_part y) else 1.
Definition o_atan2 (x y : R) := (* of the point with abscissa y and ordinate x *)
  if Rlt_dec 0 y then atan (x / y)
  else if Rlt_dec 0 x then PI / 2 - atan (y / x)
  else if Rlt_dec x 0 then - (PI / 2) - atan (y / x)
  else if Rlt_dec y 0 then PI else 0.
Definition o_hypot (x y : R) := sqrt (x * x + y * y).
Definition o_copysign (x y : R) := if Rlt_dec y 0 then - Rabs x else Rabs x. (* there is no negative zero *)
Definition o_lt (x y : R) := if Rlt_dec x y then true else false.
Definition o_le (x y : R) := if Rle_dec x y then true else false.
Definition o_eq (x y : R) := if Req_EM_T x y then true else false.
Definition o_ne (x y : R) := if Req_EM_T x y then false else true.
Definition o_and (p q : bool) := andb p q.
Definition o_or (p q : bool) := orb p q.
Definition o_where (p : bool) (x y : R) := if p then x else y.
Definition o_min (x y : R) := if Rlt_dec y x then y else x.
Definition o_max (x y : R) := if Rlt_dec x y then y else x.
Definition o_fdim (x y : R) := if Rlt_dec y x then x - y else 0.
Definition o_fma (x y z : R) := x * y + z.
Definition o_cast (x : R) := x. (* from floats to floats *)
Definition truth (p : bool) := if p then 1 else 0.

(* The table's exact constants. *)
Definition c_ln2 := ln 2.              Definition c_log2e := / ln 2.
Definition c_ln10 := ln 10.            Definition c_log10e := / ln 10.
Definition c_pi := PI.                 Definition c_half_pi := PI / 2.
Definition c_e := exp 1.               Definition c_sqrt2 := sqrt 2.
Definition c_sqrt_half := sqrt (1/2).  Definition c_two_over_sqrt_pi := 2 / sqrt PI.
Definition c_one_over_sqrt_2pi := / sqrt (2 * PI).

(* ---- slopes ------------------------------------------------------------------------------------------------------ *)

Definition differential {U : NormedModule R_AbsRing} (f : U -> R) (p : U) (l : U -> R) := filterdiff f (locally p) l.
Definition diff2 (f : R -> R -> R) (x y a b : R) :=
  differential (U := prod_NormedModule R_AbsRing R_NormedModule R_NormedModule) (fun p => f (fst p) (snd p)) (x, y)
    (fun h => a * fst h + b * snd h).

Definition left_slope (f : R -> R) x l := filterlim (fun h => (f (x + h) - f x) / h) (at_left 0) (locally l).
Definition right_slope (f : R -> R) x r := filterlim (fun h => (f (x + h) - f x) / h) (at_right 0) (locally r).
Definition between_slopes (f : R -> R) x d :=
  exists l r, left_slope f x l /\ right_slope f x r /\ l <> r /\ (l <= d <= r \/ r <= d <= l).
(* what two sources of a kinked op get: a convex combination *)
Definition convex (a b : R) := 0 <= a /\ 0 <= b /\ a + b = 1.

(* The op's types, from ops.def and the evaluator: may source k be a float? *)
Definition no_slope (takes : list bool) := forall b, List.In b takes -> b = false.

Lemma scaled f x d g v : is_derive f x d -> g * d = v -> is_derive (fun t => g * f t) x v.
Proof. intros D <-. exact (is_derive_scal f x g d D). Qed.

Section Combinators.
Context {U : NormedModule R_AbsRing}.
Implicit Types (f : U -> R) (p : U).
Lemma differential_eq f p l l' : differential f p l -> (forall h, l h = l' h) -> differential f p l'.
Proof. intros D E. exact (filterdiff_ext_lin f l l' D E). Qed.
Lemma differential_const p (c : R) : differential (fun _ => c) p (fun _ => 0).
Proof. exact (filterdiff_const c). Qed.
Lemma differential_plus f g p l m : differential f p l -> differential g p m ->
  differential (fun t => f t + g t) p (fun h => l h + m h).
Proof. intros D E. exact (filterdiff_plus_fct f g l m D E). Qed.
Lemma differential_mult f g p l m : differential f p l -> differential g p m ->
  differential (fun t => f t * g t) p (fun h => l h * g p + f p * m h).
Proof. intros D E. exact (filterdiff_mult_fct f g p l m Rmult_comm D E). Qed.
Lemma differential_comp f h p l d : differential f p l -> is_derive h (f p) d ->
  differential (fun t => h (f t)) p (fun t => l t * d).
Proof.
  intros D E. apply (filterdiff_comp' f h p l (fun y => scal y d)); assumption.
Qed.
Lemma differential_near f g p l : locally p (fun t => f t = g t) -> differential f p l -> differential g p l.
Proof. intros N D. exact (filterdiff_ext_locally f g p l N D). Qed.
End Combinators.

Lemma differential_fst (U V : NormedModule R_AbsRing) (f : U -> R) (p : U) (q : V) l : differential f p l ->
  differential (U := prod_NormedModule R_AbsRing U V) (fun t => f (fst t)) (p, q) (fun h => l (fst h)).
Proof.
  intros D. apply (filterdiff_comp' (U := prod_NormedModule R_AbsRing U V) (fun t => fst t) f (p, q)
    (fun t => fst t) l).
  - apply filterdiff_linear, is_linear_fst.
  - exact D.
Qed.
Definition at_fst x y : differential (U := prod_NormedModule R_AbsRing R_NormedModule R_NormedModule) (fun t => fst t)
  (x, y) (fun h => fst h) :=
  filterdiff_linear _ is_linear_fst.
Definition at_snd x y : differential (U := prod_NormedModule R_AbsRing R_NormedModule R_NormedModule) (fun t => snd t)
  (x, y) (fun h => snd h) :=
  filterdiff_linear _ is_linear_snd.

Lemma diff2_x f x y a b : diff2 f x y a b -> is_derive (fun t => f t y) x a.
Proof.
  intros D. refine (filterdiff_ext_lin _ _ _ (filterdiff_comp'_2 (fun t => t) (fun _ => y) f x (fun t => t) (fun _ => 0)
    (fun h k => a * h + b * k) (filterdiff_id _) (filterdiff_const y) D) _).
  intro t. unfold scal; simpl; unfold mult; simpl. ring.
Qed.
Lemma diff2_y f x y a b : diff2 f x y a b -> is_derive (fun t => f x t) y b.
Proof.
  intros D. refine (filterdiff_ext_lin _ _ _ (filterdiff_comp'_2 (fun _ => x) (fun t => t) f y (fun _ => 0) (fun t => t)
    (fun h k => a * h + b * k) (filterdiff_const x) (filterdiff_id _) D) _).
  intro t. unfold scal; simpl; unfold mult; simpl. ring.
Qed.
Lemma scaled_x f x y g a b v : diff2 f x y a b -> g * a = v -> is_derive (fun t => g * f t y) x v.
Proof. intros D. exact (scaled (fun t => f t y) x a g v (diff2_x f x y a b D)). Qed.
Lemma scaled_y f x y g a b v : diff2 f x y a b -> g * b = v -> is_derive (fun t => g * f x t) y v.
Proof. intros D. exact (scaled (fun t => f x t) y b g v (diff2_y f x y a b D)). Qed.
Lemma diff2_eq f x y a b a' b' : diff2 f x y a b -> a = a' -> b = b' -> diff2 f x y a' b'.
Proof. intros D <- <-. exact D. Qed.
(* along any two differentiable curves *)
Lemma diff2_curve f x y a b (X Y : R -> R) s dx dy : diff2 f x y a b -> X s = x -> Y s = y ->
  is_derive X s dx -> is_derive Y s dy -> is_derive (fun t => f (X t) (Y t)) s (a * dx + b * dy).
Proof.
  intros D <- <- DX DY. refine (filterdiff_ext_lin _ _ _
    (filterdiff_comp'_2 X Y f s (fun t => scal t dx) (fun t => scal t dy)
    (fun h k => a * h + b * k) DX DY D) _).
  intro t. unfold scal; simpl; unfold mult; simpl. ring.
Qed.

(* ---- what holds near a point ------------------------------------------------------------------------------------- *)

Lemma near_between a b x : a < x < b -> locally x (fun t => a < t < b).
Proof.
  intros [A B]. apply filter_and; [apply (open_gt a x A) | apply (open_lt b x B)].
Qed.
Lemma near_flat f x a b : a < x < b -> (forall t, a < t < b -> f t = f x) -> is_derive f x 0.
Proof.
  intros I F. apply (is_derive_ext_loc (fun _ => f x)).
  - apply (filter_imp (fun t => a < t < b)); [intros t T; symmetry; apply F, T | apply near_between, I].
  - apply (is_derive_const (K := R_AbsRing) (V := R_NormedModule)).
Qed.

Lemma near2 (P : R -> R -> Prop) x y : locally (x, y) (fun p : R * R => P (fst p) (snd p)) ->
  locally (T := prod_UniformSpace R_UniformSpace R_UniformSpace) (x, y) (fun p => P (fst p) (snd p)).
Proof. trivial. Qed.
Lemma near_less x y : x < y -> locally (x, y) (fun p : R * R => fst p < snd p).
Proof.
  intros L. exists (mkposreal ((y - x) / 2) ltac:(lra)). intros [u v] [A B].
  unfold ball in *; simpl in *. unfold AbsRing_ball, abs, minus, plus, opp in *; simpl in *.
  apply Rabs_def2 in A, B. lra.
Qed.
Lemma near_more x y : y < x -> locally (x, y) (fun p : R * R => snd p < fst p).
Proof.
  intros L. exists (mkposreal ((x - y) / 2) ltac:(lra)). intros [u v] [A B].
  unfold ball in *; simpl in *. unfold AbsRing_ball, abs, minus, plus, opp in *; simpl in *.
  apply Rabs_def2 in A, B. lra.
Qed.
Lemma near_fst (P : R -> Prop) (x y : R) : locally x P -> locally (x, y) (fun p : R * R => P (fst p)).
Proof. intros [e H]. exists e. intros [u v] [A B]. exact (H u A). Qed.
Lemma near_snd (P : R -> Prop) (x y : R) : locally y P -> locally (x, y) (fun p : R * R => P (snd p)).
Proof. intros [e H]. exists e. intros [u v] [A B]. exact (H v B). Qed.
Lemma near_quotient (P : R -> Prop) (x y : R) : y <> 0 -> locally (x / y) P -> locally (x, y)
  (fun p : R * R => P (fst p / snd p)).
Proof.
  intros N H.
  assert (C : continuous (U := R_UniformSpace) (fun p : R * R => fst p * / snd p) (x, y)).
  { apply (continuous_mult (K := R_AbsRing) (fun p : R * R => fst p) (fun p : R * R => / snd p));
    [apply continuous_fst|].
    apply (continuous_comp (fun p : R * R => snd p) Rinv); [apply continuous_snd | now apply continuous_Rinv]. }
  exact (C P H).
Qed.

(* ---- rounding ---------------------------------------------------------------------------------------------------- *)

Lemma floor_is n x : IZR n <= x < IZR n + 1 -> Int_part x = n.
Proof. intros H. unfold Int_part. rewrite <- (tech_up x (n + 1)); [lia | rewrite plus_IZR; lra ..]. Qed.
Lemma o_floor_is n x : IZR n <= x < IZR n + 1 -> o_floor x = IZR n.
Proof. intros H. unfold o_floor. now rewrite (floor_is n). Qed.
Lemma fraction_cell x : fraction x -> exists n, IZR n < x < IZR n + 1.
Proof.
  intros F. exists (Int_part x). destruct (base_Int_part x) as [A B].
  destruct (Req_dec x (IZR (Int_part x))) as [E|E]; [destruct F; now exists (Int_part x) | lra].
Qed.
Lemma o_ceil_is n x : IZR n < x < IZR n + 1 -> o_ceil x = IZR n + 1.
Proof.
  intros H. unfold o_ceil. rewrite (o_floor_is (- (n + 1))).
  - rewrite opp_IZR, plus_IZR. lra.
  - rewrite opp_IZR, plus_IZR. lra.
Qed.
Lemma o_trunc_is n x : IZR n < x < IZR n + 1 -> o_trunc x = if Z_lt_dec n 0 then IZR n + 1 else IZR n.
Proof.
  intros H. unfold o_trunc. destruct (Z_lt_dec n 0) as [L|L].
  - assert (K : (n + 1 <= 0)%Z) by lia. apply IZR_le in K. rewrite plus_IZR in K.
    destruct (Rlt_dec x 0); [now apply o_ceil_is | lra].
  - assert (K : (0 <= n)%Z) by lia. apply IZR_le in K.
    destruct (Rlt_dec x 0); [lra | apply o_floor_is; lra].
Qed.
Lemma o_trunc_small x : -1 < x < 1 -> o_trunc x = 0.
Proof.
  intros H. unfold o_trunc. destruct (Rlt_dec x 0).
  - rewrite (o_ceil_is (-1)); lra.
  - rewrite (o_floor_is 0); lra.
Qed.
Lemma o_round_is n x : IZR n - 1/2 < x < IZR n + 1/2 -> o_round x = IZR n.
Proof.
  intros H. unfold o_round. destruct (Rlt_dec x (IZR n)) as [L|L].
  - rewrite (o_floor_is (n - 1)) by (rewrite minus_IZR; lra). rewrite minus_IZR.
    destruct (Rlt_dec _ (1/2)); [lra|]. destruct (Rlt_dec (1/2) _); lra.
  - rewrite (o_floor_is n) by lra. destruct (Rlt_dec _ (1/2)); [reflexivity | lra].
Qed.
Lemma o_round_trunc x : o_round (o_trunc x) = o_trunc x.
Proof.
  assert (R : forall n, o_round (IZR n) = IZR n) by (intro n; apply o_round_is; lra).
  unfold o_trunc, o_ceil, o_floor. destruct (Rlt_dec x 0); [rewrite <- opp_IZR|]; apply R.
Qed.

Create HintDb slopes discriminated.
Create HintDb joint discriminated.
#[global] Hint Constants Opaque : slopes.
#[global] Hint Constants Opaque : joint.

Lemma s_floor x : fraction x -> is_derive o_floor x 0.
Proof.
  intros F. destruct (fraction_cell x F) as [n H]. apply (near_flat _ x (IZR n) (IZR n + 1) H).
  intros t T. rewrite !(o_floor_is n) by lra. reflexivity.
Qed.
Lemma s_ceil x : fraction x -> is_derive o_ceil x 0.
Proof.
  intros F. destruct (fraction_cell x F) as [n H]. apply (near_flat _ x (IZR n) (IZR n + 1) H).
  intros t T. rewrite !(o_ceil_is n) by lra. reflexivity.
Qed.
Lemma s_trunc x : fraction x -> is_derive o_trunc x 0.
Proof.
  intros F. destruct (fraction_cell x F) as [n H]. apply (near_flat _ x (IZR n) (IZR n + 1) H).
  intros t T. rewrite !(o_trunc_is n) by lra. reflexivity.
Qed.
Lemma s_trunc_0 : is_derive o_trunc 0 0.
Proof. apply (near_flat _ 0 (-1) 1); [lra|]. intros t T. rewrite !o_trunc_small by lra. reflexivity. Qed.
Lemma s_round x : fraction (x + 1/2) -> is_derive o_round x 0.
Proof.
  intros F. destruct (fraction_cell _ F) as [n H]. apply (near_flat _ x (IZR n - 1/2) (IZR n + 1/2)); [lra|].
  intros t T. rewrite !(o_round_is n) by lra. reflexivity.
Qed.
#[global] Hint Resolve s_floor s_ceil s_trunc s_trunc_0 s_round : slopes.

(* ---- smooth functions of one source ------------------------------------------------------------------------------ *)

Lemma ln2_pos : 0 < ln 2.
Proof. rewrite <- ln_1. apply ln_increasing; lra. Qed.
Lemma ln2_neq0 : ln 2 <> 0.
Proof. apply Rgt_not_eq, ln2_pos. Qed.

Lemma s_neg x : is_derive o_neg x (-1).
Proof. unfold o_neg. auto_derive; [trivial | ring]. Qed.
Lemma s_sqrt x : 0 < x -> is_derive o_sqrt x (/ (2 * sqrt x)).
Proof. intros. unfold o_sqrt. auto_derive; [assumption | ring]. Qed.
Lemma s_exp x : is_derive o_exp x (exp x).
Proof. exact (is_derive_exp x). Qed.
Lemma s_exp2 x : is_derive o_exp2 x (exp (x * ln 2) * ln 2).
Proof. unfold o_exp2. auto_derive; [trivial | ring]. Qed.
Lemma s_expm1 x : is_derive o_expm1 x (exp x).
Proof. unfold o_expm1. auto_derive; [trivial | ring]. Qed.
Lemma s_log x : 0 < x -> is_derive o_log x (/ x).
Proof. intros. unfold o_log. auto_derive; [assumption | field; lra]. Qed.
Lemma s_log2 x : 0 < x -> is_derive o_log2 x (/ (x * ln 2)).
Proof. intros. pose proof ln2_neq0. unfold o_log2. auto_derive; [assumption | field; split; [assumption | lra]]. Qed.
Lemma s_log1p x : -1 < x -> is_derive o_log1p x (/ (1 + x)).
Proof. intros. unfold o_log1p. auto_derive; [lra | field; lra]. Qed.
Lemma s_sin x : is_derive o_sin x (cos x).
Proof. unfold o_sin. auto_derive; [trivial | ring]. Qed.
Lemma s_cos x : is_derive o_cos x (- sin x).
Proof. unfold o_cos. auto_derive; [trivial | ring]. Qed.
Lemma s_tan x : cos x <> 0 -> is_derive o_tan x (o_tan x * o_tan x + 1).
Proof.
  intros N. unfold o_tan. auto_derive; [assumption | field; assumption].
Qed.
Lemma s_tanh x : is_derive o_tanh x (1 - o_tanh x * o_tanh x).
Proof.
  unfold o_tanh. pose proof (exp_pos x). pose proof (exp_pos (- x)). auto_derive; [lra | field; lra].
Qed.
Lemma s_erf x : is_derive o_erf x (2 / sqrt PI * exp (- (x * x))).
Proof.
  assert (C : forall t, continuous (fun t => exp (- (t * t))) t).
  { intro t. apply (ex_derive_continuous (K := R_AbsRing) (V := R_NormedModule)). now auto_derive. }
  apply (is_derive_scal (fun b => RInt (fun t => exp (- (t * t))) 0 b)).
  apply (is_derive_RInt (V := R_NormedModule) (fun t => exp (- (t * t))) _ 0); [|apply C].
  apply filter_forall. intro b. apply (RInt_correct (V := R_CompleteNormedModule)).
  apply (ex_RInt_continuous (V := R_CompleteNormedModule)). intros; apply C.
Qed.
Lemma s_erfc x : is_derive o_erfc x (- (2 / sqrt PI * exp (- (x * x)))).
Proof.
  unfold o_erfc. replace (- (2 / sqrt PI * exp (- (x * x)))) with (0 - 2 / sqrt PI * exp (- (x * x))) by ring.
  apply (is_derive_minus (K := R_AbsRing) (V := R_NormedModule) (fun _ => 1) o_erf); [|apply s_erf].
  apply (is_derive_const (K := R_AbsRing) (V := R_NormedModule)).
Qed.
Lemma ln10_neq0 : ln 10 <> 0.
Proof. apply Rgt_not_eq. rewrite <- ln_1. apply ln_increasing; lra. Qed.
Lemma s_log10 x : 0 < x -> is_derive o_log10 x (/ (x * ln 10)).
Proof. intros. pose proof ln10_neq0. unfold o_log10. auto_derive; [assumption | field; split; [assumption | lra]]. Qed.
Lemma one_minus_square x : 1 - x² = (1 - x) * (1 + x).
Proof. unfold Rsqr. ring. Qed.
Lemma s_asin x : -1 < x -> x < 1 -> is_derive o_asin x (/ sqrt ((1 - x) * (1 + x))).
Proof.
  intros L H. apply is_derive_Reals. replace (/ sqrt ((1 - x) * (1 + x))) with (1 / sqrt (1 - x²)).
  - rewrite <- (derive_pt_asin x (conj L H)). exact (proj2_sig (derivable_pt_asin x (conj L H))).
  - rewrite one_minus_square. unfold Rdiv. ring.
Qed.
Lemma s_acos x : -1 < x -> x < 1 -> is_derive o_acos x (- / sqrt ((1 - x) * (1 + x))).
Proof.
  intros L H. apply is_derive_Reals. replace (- / sqrt ((1 - x) * (1 + x))) with (-1 / sqrt (1 - x²)).
  - rewrite <- (derive_pt_acos x (conj L H)). exact (proj2_sig (derivable_pt_acos x (conj L H))).
  - rewrite one_minus_square. unfold Rdiv. ring.
Qed.
Lemma s_atan x : is_derive o_atan x (/ (x * x + 1)).
Proof. replace (x * x + 1) with (1 + x²) by (unfold Rsqr; ring). exact (is_derive_atan x). Qed.
Lemma s_sinh x : is_derive o_sinh x (o_cosh x).
Proof. unfold o_sinh, o_cosh. auto_derive; [trivial | field]. Qed.
Lemma s_cosh x : is_derive o_cosh x (o_sinh x).
Proof. unfold o_sinh, o_cosh. auto_derive; [trivial | field]. Qed.
Lemma s_asinh x : is_derive o_asinh x (/ o_hypot x 1).
Proof.
  assert (Q : 0 <= x * x) by (apply Rle_0_sqr). assert (S : 0 < sqrt (x * x + 1)) by (apply sqrt_lt_R0; lra).
  assert (P : 0 < x + sqrt (x * x + 1)).
  { destruct (Rlt_dec 0 x); [lra|]. assert (- x < sqrt (x * x + 1)); [|lra].
    apply Rsqr_incrst_0; [unfold Rsqr; rewrite sqrt_sqrt by lra; lra | lra | lra]. }
  unfold o_asinh, o_hypot. rewrite Rmult_1_r. auto_derive; [repeat split; lra | field; split; lra].
Qed.
Lemma s_acosh x : 1 < x -> is_derive o_acosh x (/ (sqrt (x - 1) * sqrt (x + 1))).
Proof.
  intros L. assert (P : 0 < x * x - 1) by nra. rewrite <- sqrt_mult by lra.
  replace ((x - 1) * (x + 1)) with (x * x - 1) by ring. pose proof (sqrt_lt_R0 _ P) as S.
  unfold o_acosh. auto_derive; [repeat split; unfold Rminus in *; lra | unfold Rminus in *; field; split; lra].
Qed.
Lemma s_atanh x : -1 < x -> x < 1 -> is_derive o_atanh x (/ ((1 - x) * (1 + x))).
Proof.
  intros L H. unfold o_atanh. auto_derive; [|field; lra].
  repeat split; [lra | apply Rdiv_lt_0_compat; lra].
Qed.
Lemma cube_of_third x : 0 < x -> exp (ln x / 3) * exp (ln x / 3) * exp (ln x / 3) = x.
Proof. intros P. rewrite <- !exp_plus. replace (_ + _) with (ln x) by field. now apply exp_ln. Qed.
Lemma s_third x : 0 < x -> is_derive (fun t => exp (ln t / 3)) x (/ (3 * (exp (ln x / 3) * exp (ln x / 3)))).
Proof.
  intros P. pose proof (exp_pos (ln x / 3)) as E. pose proof (cube_of_third x P) as C. auto_derive; [assumption|].
  change (ln x * / 3) with (ln x / 3). set (e := exp (ln x / 3)) in *. rewrite <- C. field. lra.
Qed.
Lemma s_cbrt_pos x : 0 < x -> is_derive o_cbrt x (/ (3 * (o_cbrt x * o_cbrt x))).
Proof.
  intros P. unfold o_cbrt at 2 3. destruct (Rlt_dec 0 x) as [_|N]; [|lra].
  apply (is_derive_ext_loc (fun t => exp (ln t / 3))); [|now apply s_third].
  apply (filter_imp (fun t => 0 < t)); [|exact (open_gt 0 x P)]. intros t T. unfold o_cbrt.
  destruct (Rlt_dec 0 t); [reflexivity | lra].
Qed.
Lemma s_cbrt_neg x : x < 0 -> is_derive o_cbrt x (/ (3 * (o_cbrt x * o_cbrt x))).
Proof.
  intros P. unfold o_cbrt at 2 3. destruct (Rlt_dec 0 x) as [Q|_]; [lra|]. destruct (Rlt_dec x 0) as [_|N]; [|lra].
  apply (is_derive_ext_loc (fun t => - exp (ln (- t) / 3))).
  { apply (filter_imp (fun t => t < 0)); [|exact (open_lt 0 x P)]. intros t T. unfold o_cbrt.
    destruct (Rlt_dec 0 t); [lra|]. destruct (Rlt_dec t 0); [reflexivity | lra]. }
  assert (C : x = - (exp (ln (- x) / 3) * exp (ln (- x) / 3) * exp (ln (- x) / 3))).
  { rewrite cube_of_third by lra. ring. }
  pose proof (exp_pos (ln (- x) / 3)) as E. auto_derive; [lra|].
  change (ln (- x) * / 3) with (ln (- x) / 3). set (e := exp (ln (- x) / 3)) in *. rewrite C. field. lra.
Qed.
Lemma s_cbrt x : x <> 0 -> is_derive o_cbrt x (/ (3 * (o_cbrt x * o_cbrt x))).
Proof. intros N. destruct (Rdichotomy _ _ N); [now apply s_cbrt_neg | now apply s_cbrt_pos]. Qed.
Lemma s_cast x : is_derive o_cast x 1.
Proof. unfold o_cast. auto_derive; [trivial | ring]. Qed.
#[global] Hint Resolve s_neg s_sqrt s_exp s_exp2 s_expm1 s_log s_log2 s_log1p s_sin s_cos s_tan s_tanh s_erf
  s_cast : slopes.
#[global] Hint Resolve s_log10 s_asin s_acos s_atan s_sinh s_cosh s_asinh s_acosh s_atanh s_erfc
  s_cbrt : slopes.

Lemma s_abs_pos x : 0 < x -> is_derive o_abs x 1.
Proof.
  intros P. apply (is_derive_ext_loc (fun t => t)); [|exact (is_derive_id (K := R_AbsRing) x)].
  apply (filter_imp (fun t => 0 < t)); [|exact (open_gt 0 x P)]. intros t T. unfold o_abs.
  now rewrite Rabs_right by lra.
Qed.
Lemma s_abs_neg x : x < 0 -> is_derive o_abs x (-1).
Proof.
  intros P. apply (is_derive_ext_loc o_neg); [|apply s_neg].
  apply (filter_imp (fun t => t < 0)); [|exact (open_lt 0 x P)]. intros t T. unfold o_abs, o_neg.
  now rewrite Rabs_left by lra.
Qed.
Lemma s_sign_pos x : 0 < x -> is_derive o_sign x 0.
Proof.
  intros P. apply (near_flat _ x 0 (x + 1)); [lra|]. intros t T. unfold o_sign.
  destruct (Rlt_dec 0 t), (Rlt_dec 0 x); lra.
Qed.
Lemma s_sign_neg x : x < 0 -> is_derive o_sign x 0.
Proof.
  intros P. apply (near_flat _ x (x - 1) 0); [lra|]. intros t T. unfold o_sign.
  destruct (Rlt_dec 0 t), (Rlt_dec 0 x), (Rlt_dec t 0), (Rlt_dec x 0); lra.
Qed.
#[global] Hint Resolve s_abs_pos s_abs_neg s_sign_pos s_sign_neg : slopes.

(* ---- two sources: joint differentials ---------------------------------------------------------------------------- *)

Ltac by_parts := match goal with
  | |- differential (fun t => fst t) _ _ => apply at_fst
  | |- differential (fun t => snd t) _ _ => apply at_snd
  | |- differential (fun t => @?f t + @?g t) _ _ => eapply (differential_plus f g); by_parts
  | |- differential (fun t => @?f t * @?g t) _ _ => eapply (differential_mult f g); by_parts
  | |- differential (fun t => - @?f t) ?p _ => eapply (differential_comp f Ropp p);
    [by_parts | auto_derive; [exact I | reflexivity]]
  | |- differential (fun _ => _) _ _ => apply differential_const
  end.

Lemma j_add x y : diff2 o_add x y 1 1.
Proof. unfold diff2, o_add. eapply differential_eq; [by_parts | intro; simpl; ring]. Qed.
Lemma j_mul x y : diff2 o_mul x y y x.
Proof. unfold diff2, o_mul. eapply differential_eq; [by_parts | intro; simpl; ring]. Qed.
Lemma j_div x y : y <> 0 -> diff2 o_div x y (/ y) (- (x / (y * y))).
Proof.
  intros N. unfold diff2, o_div, Rdiv. eapply differential_eq.
  - apply differential_mult; [apply at_fst | eapply (differential_comp _ Rinv); [apply at_snd|]].
    simpl. auto_derive; [assumption | reflexivity].
  - intro h; simpl. field. assumption.
Qed.

(* a function that is constant near the point, and one that is another near it *)
Lemma diff2_near f f' x y a b : locally (x, y) (fun p : R * R => f' (fst p) (snd p) = f (fst p) (snd p)) ->
  diff2 f' x y a b -> diff2 f x y a b.
Proof. intros N D. exact (differential_near (U := prod_NormedModule R_AbsRing R_NormedModule R_NormedModule) _ _
  _ _ N D). Qed.
Lemma diff2_flat f x y : locally (x, y) (fun p : R * R => f (fst p) (snd p) = f x y) -> diff2 f x y 0 0.
Proof.
  intros N. apply (diff2_near f (fun _ _ => f x y)).
  - revert N. apply filter_imp. intros p H. now symmetry.
  - unfold diff2. eapply differential_eq; [apply differential_const | intro; simpl; ring].
Qed.

Lemma fraction_divisor x y : fraction (x / y) -> y <> 0.
Proof. intros F ->. apply F. exists 0%Z. unfold Rdiv. rewrite Rinv_0. ring. Qed.
Lemma near_floor x y : fraction (x / y) -> locally (x, y) (fun p : R * R => o_floor (fst p / snd p) = o_floor (x / y)).
Proof.
  intros F. pose proof (fraction_divisor x y F) as N. destruct (fraction_cell _ F) as [n H].
  apply (near_quotient (fun q => o_floor q = o_floor (x / y)) x y N).
  apply (filter_imp (fun t => IZR n < t < IZR n + 1)); [|now apply near_between].
  intros t T. rewrite !(o_floor_is n) by lra. reflexivity.
Qed.
Lemma near_trunc x y : fraction (x / y) -> locally (x, y) (fun p : R * R => o_trunc (fst p / snd p) = o_trunc (x / y)).
Proof.
  intros F. pose proof (fraction_divisor x y F) as N. destruct (fraction_cell _ F) as [n H].
  apply (near_quotient (fun q => o_trunc q = o_trunc (x / y)) x y N).
  apply (filter_imp (fun t => IZR n < t < IZR n + 1)); [|now apply near_between].
  intros t T. rewrite !(o_trunc_is n) by lra. reflexivity.
Qed.
Lemma j_idiv x y : fraction (x / y) -> diff2 o_idiv x y 0 0.
Proof. intros F. apply diff2_flat. now apply near_floor. Qed.
Lemma fmod_quotient x y : fraction (x / y) -> o_round (o_div (o_add x (o_neg (o_fmod x y))) y) = o_trunc (x / y).
Proof.
  intros F. pose proof (fraction_divisor x y F). rewrite <- (o_round_trunc (x / y)). f_equal.
  unfold o_div, o_add, o_neg, o_fmod. field. assumption.
Qed.
Lemma j_line k x y : diff2 (fun u v => u - v * k) x y 1 (- k).
Proof. unfold diff2, Rminus. eapply differential_eq; [by_parts | intro; simpl; ring]. Qed.
Lemma j_mod x y : fraction (x / y) -> diff2 o_mod x y 1 (- o_floor (x / y)).
Proof.
  intros F. apply (diff2_near _ (fun u v => u - v * o_floor (x / y))); [|apply j_line].
  generalize (near_floor x y F). apply filter_imp. intros p H. unfold o_mod. now rewrite H.
Qed.
Lemma j_fmod x y : fraction (x / y) -> diff2 o_fmod x y 1 (- o_trunc (x / y)).
Proof.
  intros F. apply (diff2_near _ (fun u v => u - v * o_trunc (x / y))); [|apply j_line].
  generalize (near_trunc x y F). apply filter_imp. intros p H. unfold o_fmod. now rewrite H.
Qed.
#[global] Hint Rewrite fmod_quotient using assumption : values.

Lemma j_first x y : diff2 (fun u _ => u) x y 1 0.
Proof. unfold diff2. eapply differential_eq; [apply at_fst | intro; simpl; ring]. Qed.
Lemma j_second x y : diff2 (fun _ v => v) x y 0 1.
Proof. unfold diff2. eapply differential_eq; [apply at_snd | intro; simpl; ring]. Qed.

(* around 0 the remainder is the dividend *)
Lemma fmod_0 y : o_fmod 0 y = 0.
Proof. unfold o_fmod, Rdiv. rewrite Rmult_0_l, o_trunc_small by lra. ring. Qed.
Lemma fmod_quotient_0 y : o_round (o_div (o_add 0 (o_neg (o_fmod 0 y))) y) = 0.
Proof.
  rewrite fmod_0. unfold o_div, o_add, o_neg, Rdiv. replace ((0 + - 0) * / y) with 0 by ring.
  apply (o_round_is 0). lra.
Qed.
Lemma j_fmod_0 y : y <> 0 -> diff2 o_fmod 0 y 1 0.
Proof.
  intros N. apply (diff2_near _ (fun u _ => u)); [|apply j_first].
  assert (B : locally (0, y) (fun p : R * R => -1 < fst p / snd p < 1)).
  { apply (near_quotient (fun q => -1 < q < 1) 0 y N). apply near_between. unfold Rdiv. rewrite Rmult_0_l. lra. }
  generalize B. apply filter_imp. intros p H. unfold o_fmod. rewrite o_trunc_small by assumption. ring.
Qed.
#[global] Hint Rewrite fmod_0 fmod_quotient_0 : values.
#[global] Hint Resolve j_add j_mul j_div j_idiv j_mod j_fmod j_fmod_0 : joint.

Ltac near_compare := first [apply near_less; assumption | apply near_more; assumption].
Ltac by_side := match goal with |- locally (?x, ?y) _ =>
  first [apply (filter_imp (fun p : R * R => fst p < snd p)); [|apply near_less; assumption]
        | apply (filter_imp (fun p : R * R => snd p < fst p)); [|apply near_more; assumption]] end;
  intros [u v] H; simpl in *;
  unfold o_max, o_min, o_fdim, o_lt, o_le, o_eq, o_ne, truth in *;
  repeat match goal with
  | |- context [Rlt_dec ?a ?b] => destruct (Rlt_dec a b)
  | |- context [Rle_dec ?a ?b] => destruct (Rle_dec a b)
  | |- context [Req_EM_T ?a ?b] => destruct (Req_EM_T a b) end; lra.
Lemma j_max_x x y : y < x -> diff2 o_max x y 1 0.
Proof. intros L. apply (diff2_near _ (fun u _ => u)); [by_side | apply j_first]. Qed.
Lemma j_max_y x y : x < y -> diff2 o_max x y 0 1.
Proof. intros L. apply (diff2_near _ (fun _ v => v)); [by_side | apply j_second]. Qed.
Lemma j_min_x x y : x < y -> diff2 o_min x y 1 0.
Proof. intros L. apply (diff2_near _ (fun u _ => u)); [by_side | apply j_first]. Qed.
Lemma j_min_y x y : y < x -> diff2 o_min x y 0 1.
Proof. intros L. apply (diff2_near _ (fun _ v => v)); [by_side | apply j_second]. Qed.
Lemma j_fdim_more x y : y < x -> diff2 o_fdim x y 1 (-1).
Proof. intros L. apply (diff2_near _ (fun u v => u - v * 1)); [by_side | apply j_line]. Qed.
Lemma j_fdim_less x y : x < y -> diff2 o_fdim x y 0 0.
Proof. intros L. apply diff2_flat. by_side. Qed.
Ltac compare_flat := intros N; destruct (Rdichotomy _ _ N) as [L|L]; apply diff2_flat; by_side.
Lemma j_lt x y : x <> y -> diff2 (fun u v => truth (o_lt u v)) x y 0 0. Proof. compare_flat. Qed.
Lemma j_le x y : x <> y -> diff2 (fun u v => truth (o_le u v)) x y 0 0. Proof. compare_flat. Qed.
Lemma j_eq x y : x <> y -> diff2 (fun u v => truth (o_eq u v)) x y 0 0. Proof. compare_flat. Qed.
Lemma j_ne x y : x <> y -> diff2 (fun u v => truth (o_ne u v)) x y 0 0. Proof. compare_flat. Qed.
Lemma j_where p x y : diff2 (o_where p) x y (truth p) (1 - truth p).
Proof.
  destruct p; simpl; [apply (diff2_eq _ _ _ 1 0) | apply (diff2_eq _ _ _ 0 1)]; try (unfold truth; ring);
  [apply j_first | apply j_second].
Qed.
#[global] Hint Resolve j_max_x j_max_y j_min_x j_min_y j_fdim_more j_fdim_less j_lt j_le j_eq j_ne j_where : joint.

(* ---- powers ------------------------------------------------------------------------------------------------------ *)

Lemma o_pow_pos x y : 0 < x -> o_pow x y = exp (y * ln x).
Proof. intros P. unfold o_pow. destruct (Rlt_dec 0 x); [reflexivity | lra]. Qed.
Lemma whole_floor y : whole y -> y = o_floor y /\ exists n, y = IZR n /\ Int_part y = n.
Proof. intros [n ->]. assert (F : Int_part (IZR n) = n) by (apply floor_is; lra). unfold o_floor. rewrite F. eauto. Qed.
Lemma o_pow_neg x n : x < 0 -> o_pow x (IZR n) = powerRZ x n.
Proof.
  intros N. unfold o_pow. destruct (Rlt_dec 0 x); [lra|]. destruct (Req_EM_T x 0); [lra|].
  assert (F : Int_part (IZR n) = n) by (apply floor_is; lra). unfold o_floor. rewrite F.
  destruct (Req_EM_T (IZR n) (IZR n)); congruence.
Qed.
Lemma j_pow x y : 0 < x -> diff2 o_pow x y (y * o_pow x (y - 1)) (o_pow x y * ln x).
Proof.
  intros P. apply (diff2_near _ (fun u v => exp (v * ln u))).
  - apply (near_fst (fun u => forall v, exp (v * ln u) = o_pow u v)) with (y := y) (x := x) in P || idtac.
    apply (filter_imp (fun p : R * R => 0 < fst p)); [intros p H; symmetry; now apply o_pow_pos|].
    apply (near_fst (fun u => 0 < u)). exact (open_gt 0 x P).
  - rewrite !o_pow_pos by assumption. unfold diff2. eapply differential_eq.
    + eapply (differential_comp _ exp); [|apply is_derive_exp].
      apply differential_mult; [apply at_snd | eapply (differential_comp _ ln); [apply at_fst|]].
      simpl. auto_derive; [assumption | reflexivity].
    + intro h; simpl. replace ((y - 1) * ln x) with (y * ln x + - ln x) by ring.
      rewrite exp_plus, exp_Ropp, exp_ln by assumption. field. lra.
Qed.
Lemma s_powerRZ n x : x <> 0 -> is_derive (fun t => powerRZ t n) x (IZR n * powerRZ x (n - 1)).
Proof.
  intros N. destruct n as [|p|p].
  - simpl. replace (0 * (/ (x * 1))) with 0 by ring. apply (is_derive_const (K := R_AbsRing) (V := R_NormedModule)).
  - simpl powerRZ at 1. replace (IZR (Z.pos p) * powerRZ x (Z.pos p - 1))
    with (INR (Pos.to_nat p) * 1 * x ^ pred (Pos.to_nat p)).
    + auto_derive; [trivial | ring].
    + rewrite INR_IZR_INZ, positive_nat_Z. destruct (Pos2Nat.is_succ p) as [m M]. rewrite M. simpl pred.
      replace (Z.pos p - 1)%Z with (Z.of_nat m) by lia. rewrite <- pow_powerRZ. ring.
  - simpl powerRZ at 1. assert (Q : x ^ Pos.to_nat p <> 0) by (now apply pow_nonzero).
    apply (is_derive_ext (fun t => / t ^ Pos.to_nat p)); [reflexivity|].
    replace (IZR (Z.neg p) * powerRZ x (Z.neg p - 1))
      with (- (INR (Pos.to_nat p) * 1 * x ^ pred (Pos.to_nat p)) / (x ^ Pos.to_nat p) ^ 2).
    + auto_derive; [assumption | field; assumption].
    + replace (Z.neg p - 1)%Z with (Z.neg (p + 1)) by lia. simpl powerRZ. rewrite Pos2Nat.inj_add.
      destruct (Pos2Nat.is_succ p) as [m M]. replace (IZR (Z.neg p)) with (- INR (Pos.to_nat p)).
      * rewrite M in *. simpl pred. replace (S m + Pos.to_nat 1)%nat with (S (S m)) by (simpl; lia). simpl in *. field.
        split; [|assumption].
        intro E. apply Q. rewrite E. ring.
      * rewrite INR_IZR_INZ, positive_nat_Z, <- opp_IZR. reflexivity.
Qed.
Lemma o_pow_whole x n : x <> 0 -> o_pow x (IZR n) = powerRZ x n.
Proof.
  intros N. destruct (Rdichotomy x 0 N) as [L|L]; [now apply o_pow_neg|].
  rewrite o_pow_pos by assumption. change (exp (IZR n * ln x)) with (Rpower x (IZR n)). symmetry.
  now apply powerRZ_Rpower.
Qed.
Lemma s_pow_whole x y : x <> 0 -> whole y -> is_derive (fun t => o_pow t y) x (y * o_pow x (y - 1)).
Proof.
  intros N [n ->]. rewrite <- (minus_IZR n 1), (o_pow_whole x (n - 1) N).
  apply (is_derive_ext_loc (fun t => powerRZ t n)); [|now apply s_powerRZ].
  apply (filter_imp (fun t => t <> 0)); [|exact (open_neq 0 x N)]. intros t T. now rewrite o_pow_whole.
Qed.
Lemma o_pow_nat x n : (0 < n)%nat -> o_pow x (INR n) = x ^ n.
Proof.
  intros P. destruct (Rtotal_order x 0) as [L|[->|L]].
  - rewrite INR_IZR_INZ, o_pow_neg by assumption. symmetry. apply pow_powerRZ.
  - unfold o_pow. destruct (Rlt_dec 0 0); [lra|]. destruct (Req_EM_T 0 0); [|lra].
    apply lt_INR in P. simpl in P. destruct (Rle_dec (INR n) 0); [lra|]. destruct n; [simpl in P; lra | simpl; ring].
  - rewrite o_pow_pos by assumption. change (exp (INR n * ln x)) with (Rpower x (INR n)). now apply Rpower_pow.
Qed.
Lemma o_pow_0 x : o_pow x 0 = 1.
Proof.
  destruct (Rtotal_order x 0) as [L|[->|L]].
  - now rewrite (o_pow_neg x 0).
  - unfold o_pow. destruct (Rlt_dec 0 0); [lra|]. destruct (Req_EM_T 0 0); [|lra]. destruct (Rle_dec 0 0); lra.
  - rewrite o_pow_pos by assumption. now rewrite Rmult_0_l, exp_0.
Qed.
Lemma o_pow_0_pos y : 0 < y -> o_pow 0 y = 0.
Proof.
  intros P. unfold o_pow. destruct (Rlt_dec 0 0); [lra|]. destruct (Req_EM_T 0 0); [|lra]. destruct (Rle_dec y 0); lra.
Qed.
Lemma s_pow_natural x y : whole y -> 1 <= y -> is_derive (fun t => o_pow t y) x (y * o_pow x (y - 1)).
Proof.
  intros [n ->] P. apply le_IZR in P. rewrite <- (Z2Nat.id n) by lia. rewrite <- INR_IZR_INZ.
  assert (Q : (0 < Z.to_nat n)%nat) by lia. destruct (Z.to_nat n) as [|m]; [lia|].
  apply (is_derive_ext (fun t => t ^ S m)); [intro t; symmetry; now apply o_pow_nat|].
  replace (o_pow x (INR (S m) - 1)) with (x ^ m).
  - auto_derive; [trivial | simpl pred; change (match m with O => 1 | S _ => INR m + 1 end) with (INR (S m)); ring].
  - rewrite S_INR. replace (INR m + 1 - 1) with (INR m) by ring. destruct m; [simpl INR; now rewrite o_pow_0|].
    now rewrite o_pow_nat by lia.
Qed.
Lemma s_pow_0 x : is_derive (fun t => o_pow t 0) x 0.
Proof.
  apply (is_derive_ext (fun _ => 1)); [intro; now rewrite o_pow_0|].
  apply (is_derive_const (K := R_AbsRing) (V := R_NormedModule)).
Qed.
Lemma s_pow_base_0 y : 0 < y -> is_derive (fun t => o_pow 0 t) y 0.
Proof.
  intros P. apply (near_flat _ y 0 (y + 1)); [lra|]. intros t T. rewrite !o_pow_0_pos; lra.
Qed.
#[global] Hint Resolve j_pow : joint.
#[global] Hint Resolve s_pow_whole s_pow_natural s_pow_0 s_pow_base_0 : slopes.

(* ---- angles ------------------------------------------------------------------------------------------------------ *)

Lemma s_atan_ratio (x y : R) : y <> 0 -> diff2 (fun u v => atan (u / v)) x y (y / (x * x + y * y))
  (- (x / (x * x + y * y))).
Proof.
  intros N. assert (P : 0 < y * y) by (apply Rsqr_pos_lt; assumption). assert (Q : 0 <= x * x) by (apply Rle_0_sqr).
  unfold diff2, Rdiv. eapply differential_eq.
  - eapply (differential_comp _ atan); [|apply is_derive_atan].
    apply differential_mult; [apply at_fst | eapply (differential_comp _ Rinv); [apply at_snd|]].
    simpl. auto_derive; [assumption | reflexivity].
  - intro h; simpl. unfold Rsqr. field. repeat split; lra.
Qed.
Lemma j_atan2_right x y : 0 < y -> diff2 o_atan2 x y (y / (x * x + y * y)) (- (x / (x * x + y * y))).
Proof.
  intros P. apply (diff2_near _ (fun u v => atan (u / v))); [|apply s_atan_ratio; lra].
  apply (filter_imp (fun p : R * R => 0 < snd p)); [|apply (near_snd (fun v => 0 < v)); exact (open_gt 0 y P)].
  intros p H. unfold o_atan2. destruct (Rlt_dec 0 (snd p)); [reflexivity | lra].
Qed.
Lemma atan_flip z : 0 < z -> atan z = PI / 2 - atan (/ z).
Proof. intros P. rewrite (atan_inv z P). ring. Qed.
Lemma o_atan2_up x y : 0 < x -> o_atan2 x y = PI / 2 - atan (y / x).
Proof.
  intros P. unfold o_atan2. destruct (Rlt_dec 0 y) as [Q|Q].
  - rewrite atan_flip by (now apply Rdiv_lt_0_compat). do 2 f_equal. field. lra.
  - destruct (Rlt_dec 0 x); [reflexivity | lra].
Qed.
Lemma o_atan2_down x y : x < 0 -> o_atan2 x y = - (PI / 2) - atan (y / x).
Proof.
  intros P. unfold o_atan2. destruct (Rlt_dec 0 y) as [Q|Q].
  - replace (x / y) with (- (- x / y)) by (field; lra). rewrite atan_opp, atan_flip by (apply Rdiv_lt_0_compat; lra).
    replace (/ (- x / y)) with (- (y / x)) by (field; lra). rewrite atan_opp. ring.
  - destruct (Rlt_dec 0 x); [lra|]. destruct (Rlt_dec x 0); [reflexivity | lra].
Qed.
Lemma s_atan_corner c (x y : R) : x <> 0 -> diff2 (fun u v => c - atan (v / u)) x y (y / (x * x + y * y))
  (- (x / (x * x + y * y))).
Proof.
  intros N. assert (P : 0 < x * x) by (apply Rsqr_pos_lt; assumption). assert (Q : 0 <= y * y) by (apply Rle_0_sqr).
  unfold diff2, Rdiv, Rminus. eapply differential_eq.
  - apply differential_plus; [apply differential_const|]. eapply (differential_comp _ Ropp);
    [|auto_derive; [trivial | reflexivity]].
    eapply (differential_comp _ atan); [|apply is_derive_atan].
    apply differential_mult; [apply at_snd | eapply (differential_comp _ Rinv); [apply at_fst|]].
    simpl. auto_derive; [assumption | reflexivity].
  - intro h; simpl. unfold Rsqr. field. repeat split; lra.
Qed.
Lemma j_atan2_up x y : 0 < x -> diff2 o_atan2 x y (y / (x * x + y * y)) (- (x / (x * x + y * y))).
Proof.
  intros P. apply (diff2_near _ (fun u v => PI / 2 - atan (v / u))); [|apply s_atan_corner; lra].
  apply (filter_imp (fun p : R * R => 0 < fst p)); [intros p H; symmetry; now apply o_atan2_up|].
  apply (near_fst (fun u => 0 < u)). exact (open_gt 0 x P).
Qed.
Lemma j_atan2_down x y : x < 0 -> diff2 o_atan2 x y (y / (x * x + y * y)) (- (x / (x * x + y * y))).
Proof.
  intros P. apply (diff2_near _ (fun u v => - (PI / 2) - atan (v / u))); [|apply s_atan_corner; lra].
  apply (filter_imp (fun p : R * R => fst p < 0)); [intros p H; symmetry; now apply o_atan2_down|].
  apply (near_fst (fun u => u < 0)). exact (open_lt 0 x P).
Qed.
#[global] Hint Resolve j_atan2_right j_atan2_up j_atan2_down : joint.

(* ---- lengths and signs ------------------------------------------------------------------------------------------- *)

Lemma s_hypot x y : 0 < x * x + y * y -> diff2 o_hypot x y (x / o_hypot x y) (y / o_hypot x y).
Proof.
  intros P. pose proof (sqrt_lt_R0 _ P) as S. unfold diff2, o_hypot. eapply differential_eq.
  - (* which parts those are is told: to unify them took minutes *)
    eapply (differential_comp _ sqrt); [by_parts | simpl; apply is_derive_Reals, derivable_pt_lim_sqrt; exact P].
  - intro h; simpl. field. lra.
Qed.
Lemma j_hypot_x x y : x <> 0 -> diff2 o_hypot x y (x / o_hypot x y) (y / o_hypot x y).
Proof. intros N. apply s_hypot. pose proof (Rsqr_pos_lt x N). pose proof (Rle_0_sqr y). unfold Rsqr in *. lra. Qed.
Lemma j_hypot_y x y : y <> 0 -> diff2 o_hypot x y (x / o_hypot x y) (y / o_hypot x y).
Proof. intros N. apply s_hypot. pose proof (Rsqr_pos_lt y N). pose proof (Rle_0_sqr x). unfold Rsqr in *. lra. Qed.
Lemma hypot_zero x y : o_hypot x y = 0 -> x = 0 /\ y = 0.
Proof.
  unfold o_hypot. intros E. pose proof (Rle_0_sqr x). pose proof (Rle_0_sqr y). unfold Rsqr in *.
  apply sqrt_eq_0 in E; [|lra]. split; apply Rsqr_0_uniq; unfold Rsqr; lra.
Qed.
Lemma hypot_guarded_x x y : x <> 0 -> o_where (o_eq (o_hypot x y) 0) 1 (o_hypot x y) = o_hypot x y.
Proof. intros N. unfold o_where, o_eq. destruct (Req_EM_T _ 0) as [E|E];
  [destruct (hypot_zero x y E); lra | reflexivity]. Qed.
Lemma hypot_guarded_y x y : y <> 0 -> o_where (o_eq (o_hypot x y) 0) 1 (o_hypot x y) = o_hypot x y.
Proof. intros N. unfold o_where, o_eq. destruct (Req_EM_T _ 0) as [E|E];
  [destruct (hypot_zero x y E); lra | reflexivity]. Qed.
Lemma hypot_0_r x : o_hypot x 0 = Rabs x.
Proof. unfold o_hypot. replace (x * x + 0 * 0) with (x²) by (unfold Rsqr; ring). apply sqrt_Rsqr_abs. Qed.
Lemma hypot_0_l y : o_hypot 0 y = Rabs y.
Proof. unfold o_hypot. replace (0 * 0 + y * y) with (y²) by (unfold Rsqr; ring). apply sqrt_Rsqr_abs. Qed.
#[global] Hint Rewrite hypot_guarded_x hypot_guarded_y using assumption : values.
#[global] Hint Rewrite hypot_0_r hypot_0_l : values.
#[global] Hint Resolve j_hypot_x j_hypot_y : joint.

Ltac copysign_near := match goal with |- locally (?x, ?y) _ =>
  apply (filter_imp (fun p : R * R => (0 < fst p /\ 0 < x \/ fst p < 0 /\ x < 0) /\
    (0 < snd p /\ 0 < y \/ snd p < 0 /\ y < 0))); [|
    apply filter_and;
    [ apply (near_fst (fun u => 0 < u /\ 0 < x \/ u < 0 /\ x < 0)) | apply
      (near_snd (fun v => 0 < v /\ 0 < y \/ v < 0 /\ y < 0)) ];
    first [ apply (filter_imp (fun t => 0 < t)); [intros; left; split; assumption | apply open_gt; assumption]
          | apply (filter_imp (fun t => t < 0)); [intros; right; split; assumption | apply open_lt; assumption] ] ];
  intros [u v] H; simpl in *; unfold o_copysign, o_neg, Rabs; destruct (Rlt_dec v 0), (Rcase_abs u); lra end.
Lemma j_opposite x y : diff2 (fun u _ => o_neg u) x y (-1) 0.
Proof. unfold diff2, o_neg. eapply differential_eq;
  [eapply (differential_comp _ Ropp); [apply at_fst | auto_derive; [trivial | reflexivity]] | intro; simpl; ring]. Qed.
Lemma j_copysign_pp x y : 0 < x -> 0 < y -> diff2 o_copysign x y 1 0.
Proof. intros P Q. apply (diff2_near _ (fun u _ => u)); [copysign_near | apply j_first]. Qed.
Lemma j_copysign_nn x y : x < 0 -> y < 0 -> diff2 o_copysign x y 1 0.
Proof. intros P Q. apply (diff2_near _ (fun u _ => u)); [copysign_near | apply j_first]. Qed.
Lemma j_copysign_pn x y : 0 < x -> y < 0 -> diff2 o_copysign x y (-1) 0.
Proof. intros P Q. apply (diff2_near _ (fun u _ => o_neg u)); [copysign_near | apply j_opposite]. Qed.
Lemma j_copysign_np x y : x < 0 -> 0 < y -> diff2 o_copysign x y (-1) 0.
Proof. intros P Q. apply (diff2_near _ (fun u _ => o_neg u)); [copysign_near | apply j_opposite]. Qed.
Lemma j_copysign x y : o_mul x y <> 0 -> diff2 o_copysign x y (o_sign x * o_sign (o_copysign x y)) 0.
Proof.
  unfold o_mul. intros N. assert (X : x <> 0) by (intros ->; lra). assert (Y : y <> 0) by (intros ->; lra).
  destruct (Rdichotomy x 0 X) as [P|P], (Rdichotomy y 0 Y) as [Q|Q]; unfold Rgt in *;
  [eapply diff2_eq; [apply (j_copysign_nn x y P Q)| |] | eapply diff2_eq; [apply (j_copysign_np x y P Q)| |]
  | eapply diff2_eq; [apply (j_copysign_pn x y P Q)| |] | eapply diff2_eq; [apply (j_copysign_pp x y P Q)| |]];
  try reflexivity; unfold o_sign, o_copysign, Rabs;
  repeat (match goal with
  | |- context [Rlt_dec y 0] => destruct (Rlt_dec y 0)
  | |- context [Rcase_abs x] => destruct (Rcase_abs x)
  | |- context [Rlt_dec ?a ?b] => destruct (Rlt_dec a b) end; try lra).
Qed.
Lemma copysign_0_r x : o_copysign x 0 = o_abs x.
Proof. unfold o_copysign, o_abs. destruct (Rlt_dec 0 0); [lra | reflexivity]. Qed.
Lemma s_copysign_0_pos x : 0 < x -> is_derive (fun t => o_copysign t 0) x 1.
Proof. intros P. apply (is_derive_ext o_abs); [intro; symmetry; apply copysign_0_r | now apply s_abs_pos]. Qed.
Lemma s_copysign_0_neg x : x < 0 -> is_derive (fun t => o_copysign t 0) x (-1).
Proof. intros P. apply (is_derive_ext o_abs); [intro; symmetry; apply copysign_0_r | now apply s_abs_neg]. Qed.
Lemma s_copysign_of_0 y : is_derive (fun t => o_copysign 0 t) y 0.
Proof.
  apply (is_derive_ext (fun _ => 0)); [|apply (is_derive_const (K := R_AbsRing) (V := R_NormedModule))].
  intro t. unfold o_copysign. rewrite Rabs_R0. destruct (Rlt_dec t 0); simpl; lra.
Qed.
Lemma s_copysign_x x y : x <> 0 -> is_derive (fun t => o_copysign t y) x (o_sign x * o_sign (o_copysign x y)).
Proof.
  intros N. destruct (Req_dec y 0) as [->|Y].
  - assert (E : o_sign (o_copysign x 0) = 1).
    { rewrite copysign_0_r. unfold o_abs, o_sign. pose proof (Rabs_pos_lt x N). destruct (Rlt_dec 0 (Rabs x)); lra. }
    rewrite E, Rmult_1_r. unfold o_sign. destruct (Rlt_dec 0 x) as [P|P]; [now apply s_copysign_0_pos|].
    destruct (Rlt_dec x 0) as [Q|Q]; [now apply s_copysign_0_neg | lra].
  - apply (diff2_x o_copysign x y _ 0), j_copysign. now apply Rmult_integral_contrapositive_currified.
Qed.
Lemma s_copysign_y x y : y <> 0 -> is_derive (fun t => o_copysign x t) y 0.
Proof.
  intros Y. destruct (Req_dec x 0) as [->|N]; [apply s_copysign_of_0|].
  apply (diff2_y o_copysign x y (o_sign x * o_sign (o_copysign x y))), j_copysign.
  now apply Rmult_integral_contrapositive_currified.
Qed.
#[global] Hint Resolve j_copysign : joint.
#[global] Hint Resolve s_copysign_x s_copysign_y s_copysign_of_0 : slopes.

(* ---- three sources ----------------------------------------------------------------------------------------------- *)

Lemma s_fma_x x y z : is_derive (fun t => o_fma t y z) x y.
Proof. unfold o_fma. auto_derive; [trivial | ring]. Qed.
Lemma s_fma_y x y z : is_derive (fun t => o_fma x t z) y x.
Proof. unfold o_fma. auto_derive; [trivial | ring]. Qed.
Lemma s_fma_z x y z : is_derive (fun t => o_fma x y t) z 1.
Proof. unfold o_fma. auto_derive; [trivial | ring]. Qed.
#[global] Hint Resolve s_fma_x s_fma_y s_fma_z : slopes.

(* ---- kinks ------------------------------------------------------------------------------------------------------- *)

Lemma right_slope_line (f : R -> R) x r : (forall h, 0 < h -> f (x + h) - f x = r * h) -> right_slope f x r.
Proof.
  intros L. unfold right_slope, at_right. apply (filterlim_ext_loc (fun _ => r)); [|apply filterlim_const].
  exists (mkposreal 1 Rlt_0_1). intros h _ P. rewrite (L h P). field. lra.
Qed.
Lemma left_slope_line (f : R -> R) x l : (forall h, h < 0 -> f (x + h) - f x = l * h) -> left_slope f x l.
Proof.
  intros L. unfold left_slope, at_left. apply (filterlim_ext_loc (fun _ => l)); [|apply filterlim_const].
  exists (mkposreal 1 Rlt_0_1). intros h _ P. rewrite (L h P). field. lra.
Qed.
(* A function that is linear on each side has as slopes its differences over 1. *)
Lemma kink f x d :
  (forall h, 0 < h -> f (x + h) - f x = (f (x + 1) - f x) * h) ->
    (forall h, h < 0 -> f (x + h) - f x = (f x - f (x - 1)) * h) ->
  f x - f (x - 1) <> f (x + 1) - f x ->
  f x - f (x - 1) <= d <= f (x + 1) - f x \/ f (x + 1) - f x <= d <= f x - f (x - 1) -> between_slopes f x d.
Proof.
  intros P N K B. exists (f x - f (x - 1)), (f (x + 1) - f x). repeat split; trivial;
  [now apply left_slope_line | now apply right_slope_line].
Qed.

Lemma kink_copysign g y v : g <> 0 -> v = 0 -> between_slopes (fun t => g * o_copysign t y) 0 v.
Proof.
  intros N ->. assert (A : forall t, 0 <= t -> o_copysign t y = if Rlt_dec y 0 then - t else t).
  { intros t T. unfold o_copysign. rewrite Rabs_right by lra. reflexivity. }
  assert (B : forall t, t <= 0 -> o_copysign t y = if Rlt_dec y 0 then t else - t).
  { intros t T. unfold o_copysign. rewrite Rabs_left1 by lra. destruct (Rlt_dec y 0); ring. }
  apply kink.
  - intros h H. rewrite !A by lra. destruct (Rlt_dec y 0); ring.
  - intros h H. rewrite (B (0 + h)), (A 0), (B (0 - 1)) by lra. destruct (Rlt_dec y 0); ring.
  - rewrite (B (0 - 1)), (A 0), (A (0 + 1)) by lra. destruct (Rlt_dec y 0); lra.
  - rewrite (B (0 - 1)), (A 0), (A (0 + 1)) by lra. destruct (Rlt_dec y 0), (Rle_dec 0 g); lra.
Qed.

(* ---- the tactics ------------------------------------------------------------------------------------------------- *)

Ltac names := autorewrite with values; unfold o_neg, o_abs, o_sign, o_sqrt, o_exp, o_exp2, o_expm1, o_log, o_log2,
  o_log1p, o_sin, o_cos, o_add, o_mul, o_div, o_idiv,
  o_where, o_and, o_or, o_lt, o_le, o_eq, o_ne, o_max, o_min, o_fdim, o_fma, o_cast, o_copysign, o_atan, c_ln2, c_log2e,
    c_log10e, c_two_over_sqrt_pi, truth, Rabs in *.
Ltac by_cases := repeat (match goal with
  | |- context [Rlt_dec ?a ?b] => destruct (Rlt_dec a b)
  | |- context [Rle_dec ?a ?b] => destruct (Rle_dec a b)
  | |- context [Req_EM_T ?a ?b] => destruct (Req_EM_T a b)
  | |- context [Rcase_abs ?a] => destruct (Rcase_abs a)
  | p : bool |- _ => destruct p
  end; cbn [andb orb] in *; try (exfalso; lra)).
Ltac nonzero := repeat split; first
  [ assumption | lra | apply ln2_neq0 | apply ln10_neq0 | apply Rgt_not_eq, sqrt_lt_R0;
    first [assumption | apply PI_RGT_0]
  | apply Rgt_not_eq; nra | (let H := fresh in pose proof (Rle_0_sqr) as H; unfold Rsqr in H; nra) ].
Ltac minus := repeat match goal with |- context [?a + - ?b] => change (a + - b) with (a - b) end.
#[global] Hint Rewrite ln_1 : values.
Ltac same_value := names; by_cases; autorewrite with values; minus;
  first [ring | lra | (unfold Rdiv; ring) | field; nonzero].
Ltac known := repeat match goal with
  | H : ?x <> ?y :> R |- is_derive _ _ _ => destruct (Rdichotomy x y H); clear H
  | H : ?x <> ?y :> R |- diff2 _ _ _ _ _ => destruct (Rdichotomy x y H); clear H end.
Ltac tidy := intros; repeat match goal with H : fraction _ |- _ => progress unfold o_add, o_div in H end; subst.
Ltac by_slope := match goal with
  | |- is_derive (fun t => ?g * truth (?f t ?y)) ?x _ => eapply (scaled_x (fun u v => truth (f u v)) x y);
    [solve [eauto with joint nocore]|]
  | |- is_derive (fun t => ?g * truth (?f ?x t)) ?y _ => eapply (scaled_y (fun u v => truth (f u v)) x y);
    [solve [eauto with joint nocore]|]
  | |- _ => eapply scaled; [solve [eauto with slopes nocore]|]
  | |- is_derive (fun t => ?g * ?f t ?y) ?x _ => eapply (scaled_x f x y); [solve [eauto with joint nocore]|]
  | |- is_derive (fun t => ?g * ?f ?x t) ?y _ => eapply (scaled_y f x y); [solve [eauto with joint nocore]|]
  end.
(* is_derive (fun x => g * op ...) x (the row): the known slope, and that the row's value is g times it *)
Ltac slope_row := tidy; first [by_slope | known; by_slope]; solve [same_value].
Ltac by_joint := eapply diff2_eq; [solve [eauto with joint nocore]| |].
Ltac joint_row := tidy; first [by_joint | known; by_joint]; solve [same_value].
Ltac linear := intros; names; by_cases; first [lra | ring | nra].
Ltac lines_row := intros; subst; match goal with |- between_slopes ?f ?x ?d => apply (kink f x d) end;
  [linear | linear | linear |
  match goal with g : R |- _ => destruct (Rle_dec 0 g) end; first [left; linear | right; linear]].
Ltac copysign_row := intros; subst; apply kink_copysign; [assumption | unfold o_mul, o_sign at 1; by_cases; ring].
Ltac kink_row := first [solve [lines_row] | solve [copysign_row]].
Ltac convex_row := intros; subst; unfold convex; repeat split; linear.
(* one of the clauses holds: all that they compare is compared, and what is not whole is a fraction *)
Lemma whole_above_0 y : whole y -> 0 < y -> 1 <= y.
Proof. intros [n ->] P. apply (lt_IZR 0) in P. apply IZR_le. lia. Qed.
Ltac compared a b := match goal with
  | H : a < b |- _ => fail 1 | H : a = b |- _ => fail 1 | H : b < a |- _ => fail 1
  | |- _ => destruct (Rtotal_order a b) as [?|[?|?]]; unfold Rgt in * end.
Ltac decided t := match goal with
  | H : whole t |- _ => fail 1 | H : ~ whole t |- _ => fail 1
  | |- _ => destruct (Classical_Prop.classic (whole t)) end.
Ltac all_compared := unfold fraction in *; repeat match goal with
  | H : _ /\ _ |- _ => destruct H
  | H : _ \/ _ |- _ => destruct H
  | |- context [?a < ?b] => compared a b
  | |- context [?a <= ?b] => compared a b
  | |- context [?a = ?b] => compared a b
  | |- context [whole ?t] => decided t
  | W : whole ?y, P : 0 < ?y |- _ => match goal with H : 1 <= y |- _ => fail 1 | |- _ =>
    pose proof (whole_above_0 y W P) end end.
Ltac covered := first [ solve [repeat split; first [assumption | lra | (intro; lra)]] | left;
  covered | right; covered ].
Ltac cover_row := intros; all_compared; first [exfalso; (lra || contradiction) | covered | exfalso;
  unfold o_mul in *; nra].
(* at a point of few digits *)
Lemma half_is_fraction k x : 2 * x = IZR k -> Z.odd k = true -> fraction x.
Proof.
  intros E O [n ->]. rewrite <- mult_IZR in E. apply eq_IZR in E. subst. rewrite Z.odd_mul in O. discriminate.
Qed.
Ltac met_whole := unfold o_div, o_add; first [exists 0%Z; lra | exists 1%Z; lra | exists (-1)%Z; lra | exists 2%Z;
  lra | exists (-2)%Z; lra].
Ltac met_fraction := unfold o_div, o_add; first
  [ apply (half_is_fraction 1); [lra | reflexivity] | apply (half_is_fraction 3); [lra | reflexivity]
  | apply (half_is_fraction (-1)); [lra | reflexivity] ].
Ltac met_row := repeat split; first [lra | match goal with |- whole _ => met_whole | |- fraction _ => met_fraction end
  | (unfold o_cos; rewrite cos_0; lra) | (unfold o_mul; lra)].
Ltac no_slope_row := intros b I; repeat (destruct I as [I|I]; [now symmetry|]); destruct I.
