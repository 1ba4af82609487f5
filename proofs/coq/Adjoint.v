(* Adjoints of the whole-tensor ops: <A x, y> = <x, A^T y> for all x and y.
   Every movement op reads each element of its result at one place of its source, or reads 0: a masked gather.  Its
   adjoint, as the engine builds it, reads each element of the source's gradient at one place for each value of a
   summed index, or reads 0.  One theorem, `masked_adjoint`, says when the two are adjoint to each other.  That they
   are is a fact about integers, printed for one axis from what the engine built (`undone`); `each_axis` is about any
   number of axes, with anything done to each. *)
From Coq Require Import Reals Lra Lia ZArith List Bool Permutation.
From Coquelicot Require Import Coquelicot.
Import ListNotations.
Open Scope R_scope.

(* ---- sums over finite sets of indices ---------------------------------------------------------------------------- *)

Definition total {A} (l : list A) (f : A -> R) : R := fold_right (fun a s => f a + s) 0 l.
Definition dot {A} (l : list A) (u v : A -> R) := total l (fun a => u a * v a).

Lemma total_ext {A} (l : list A) f g : (forall a, In a l -> f a = g a) -> total l f = total l g.
Proof.
  induction l as [|a l IH]; intros H; simpl; [reflexivity|]. rewrite (H a) by now left. rewrite IH; [reflexivity|].
  intros; apply H. now right.
Qed.
Lemma total_0 {A} (l : list A) : total l (fun _ => 0) = 0.
Proof. induction l; simpl; lra. Qed.
Lemma total_plus {A} (l : list A) f g : total l (fun a => f a + g a) = total l f + total l g.
Proof. induction l; simpl; lra. Qed.
Lemma total_scal {A} (l : list A) c f : c * total l f = total l (fun a => c * f a).
Proof. induction l; simpl; [lra|]. rewrite <- IHl. ring. Qed.
Lemma total_scal_r {A} (l : list A) c f : total l f * c = total l (fun a => f a * c).
Proof. induction l; simpl; [lra|]. rewrite <- IHl. ring. Qed.
Lemma total_swap {A B} (l : list A) (m : list B) f : total l (fun a => total m (fun b => f a b)) =
  total m (fun b => total l (fun a => f a b)).
Proof. induction l; simpl; [now rewrite total_0|]. now rewrite IHl, total_plus. Qed.
Lemma total_app {A} (l m : list A) f : total (l ++ m) f = total l f + total m f.
Proof. induction l; simpl; [lra|]. rewrite IHl. ring. Qed.
Lemma total_map {A B} (h : A -> B) (l : list A) f : total (map h l) f = total l (fun a => f (h a)).
Proof. induction l; simpl; [reflexivity|]. now rewrite IHl. Qed.
Lemma total_prod {A B} (l : list A) (m : list B) f : total (list_prod l m) f = total l
  (fun a => total m (fun b => f (a, b))).
Proof. induction l; simpl; [reflexivity|]. now rewrite total_app, total_map, IHl. Qed.
Lemma total_filter {A} (p : A -> bool) (l : list A) f : total l (fun a => if p a then f a else 0) =
  total (filter p l) f.
Proof. induction l as [|a l IH]; simpl; [reflexivity|]. destruct (p a); simpl; rewrite IH; ring. Qed.
Lemma total_permutation {A} (l m : list A) f : Permutation l m -> total l f = total m f.
Proof. induction 1; simpl; lra. Qed.

Lemma NoDup_map_in {A B} (h : A -> B) (l : list A) :
  (forall a b, In a l -> In b l -> h a = h b -> a = b) -> NoDup l -> NoDup (map h l).
Proof.
  intros I N. induction N as [|a l H N IH]; simpl; constructor.
  - intros K. apply in_map_iff in K. destruct K as (b & E & K). apply H. rewrite (I a b);
    [assumption | now left | now right | now symmetry].
  - apply IH. intros; apply I; trivial; now right.
Qed.
Lemma NoDup_app_disjoint {A} (l m : list A) : NoDup l -> NoDup m -> (forall a, In a l -> ~ In a m) -> NoDup (l ++ m).
Proof.
  intros N M D. induction N as [|a l H N IH]; simpl; [assumption|]. constructor.
  - intros K. apply in_app_or in K. destruct K as [K|K]; [contradiction | apply (D a); [now left | assumption]].
  - apply IH. intros b K. apply D. now right.
Qed.
Lemma NoDup_list_prod {A B} (l : list A) (m : list B) : NoDup l -> NoDup m -> NoDup (list_prod l m).
Proof.
  intros N M. induction N as [|a l H N IH]; simpl; [constructor|]. apply NoDup_app_disjoint; trivial.
  - apply NoDup_map_in; [congruence | assumption].
  - intros [u v] K L. apply in_map_iff in K. destruct K as (w & E & _). apply in_prod_iff in L. destruct L. congruence.
Qed.

(* ---- the theorem ------------------------------------------------------------------------------------------------- *)

Section Masked.
Context {A B O : Type} (la : list A) (lb : list B) (lo : list O).
Context (mF : A -> bool) (f : A -> B) (mB : B -> O -> bool) (g : B -> O -> A) (p : A -> O).

(* p finds the summed index again: it is a witness, not part of what is said. *)
Definition back_and_forth :=
  (forall b o, In b lb -> In o lo -> mB b o = true -> In (g b o) la /\ mF (g b o) = true /\ f (g b o) = b /\
    p (g b o) = o) /\
  (forall a, In a la -> mF a = true -> In (f a) lb /\ In (p a) lo /\ mB (f a) (p a) = true /\ g (f a) (p a) = a).

Definition gathered (x : B -> R) a := if mF a then x (f a) else 0.
Definition gathered_sum (y : A -> R) b := total lo (fun o => if mB b o then y (g b o) else 0).

Theorem masked_adjoint : NoDup la -> NoDup lb -> NoDup lo -> back_and_forth ->
  forall x y, dot la (gathered x) y = dot lb x (gathered_sum y).
Proof.
  intros NA NB NO [H K] x y. unfold dot, gathered, gathered_sum.
  rewrite (total_ext la _ (fun a => if mF a then x (f a) * y a else 0)) by (intros; destruct (mF a); lra).
  rewrite total_filter.
  rewrite (total_ext lb _ (fun b => total lo (fun o => if mB b o then x b * y (g b o) else 0))).
  2: { intros b _. rewrite total_scal. apply total_ext. intros. destruct (mB b a); lra. }
  transitivity (total (list_prod lb lo) (fun q => if mB (fst q) (snd q) then x (fst q) * y (g (fst q) (snd q)) else 0)).
  2: { now rewrite total_prod. }
  rewrite (total_filter (fun q => mB (fst q) (snd q)) _ (fun q => x (fst q) * y (g (fst q) (snd q)))).
  rewrite <- (total_permutation (map (fun a => (f a, p a)) (filter mF la))).
  - rewrite total_map. apply total_ext. intros a I. apply filter_In in I. destruct I as [I M].
    simpl. now destruct (K a I M) as (_ & _ & _ & ->).
  - apply NoDup_Permutation.
    + apply NoDup_map_in; [|now apply NoDup_filter]. intros a b I J E.
      apply filter_In in I, J. destruct I as [I M], J as [J L]. injection E as E F.
      destruct (K a I M) as (_ & _ & _ & <-), (K b J L) as (_ & _ & _ & <-). now rewrite E, F.
    + apply NoDup_filter. now apply NoDup_list_prod.
    + intros [b o]. rewrite in_map_iff, filter_In, in_prod_iff. simpl. split.
      * intros (a & E & I). apply filter_In in I. destruct I as [I M]. injection E as <- <-.
        destruct (K a I M) as (? & ? & ? & _). auto.
      * intros ((I & J) & M). destruct (H b o I J M) as (? & ? & E & F). exists (g b o). rewrite filter_In.
        split; [congruence | auto].
Qed.
End Masked.

(* ---- boxes of integers: the indices of a tensor ------------------------------------------------------------------ *)

Definition upto (n : Z) : list Z := map Z.of_nat (seq 0 (Z.to_nat n)).
Fixpoint box (d : list Z) : list (list Z) :=
  match d with [] => [[]] | n :: d => map (fun q => fst q :: snd q) (list_prod (upto n) (box d)) end.
Fixpoint inside (i d : list Z) : Prop :=
  match i, d with [], [] => True | a :: i, n :: d => (0 <= a < n)%Z /\ inside i d | _, _ => False end.

Lemma in_upto a n : In a (upto n) <-> (0 <= a < n)%Z.
Proof.
  unfold upto. rewrite in_map_iff. split.
  - intros (k & <- & K). apply in_seq in K. lia.
  - intros K. exists (Z.to_nat a). split; [lia|]. apply in_seq. lia.
Qed.
Lemma NoDup_upto n : NoDup (upto n).
Proof. unfold upto. apply NoDup_map_in; [intros; lia | apply seq_NoDup]. Qed.
Lemma in_box i d : In i (box d) <-> inside i d.
Proof.
  revert i. induction d as [|n d IH]; intros i; simpl.
  - destruct i; simpl; intuition congruence.
  - rewrite in_map_iff. split.
    + intros ([a j] & <- & K). apply in_prod_iff in K. simpl. rewrite <- IH, <- in_upto. exact K.
    + destruct i as [|a i]; simpl; [contradiction|]. intros [K L]. exists (a, i). split; [reflexivity|].
      apply in_prod_iff. now rewrite in_upto, IH.
Qed.
Lemma NoDup_box d : NoDup (box d).
Proof.
  induction d as [|n d IH]; simpl; [repeat constructor; simpl; tauto|].
  apply NoDup_map_in; [|apply NoDup_list_prod; [apply NoDup_upto | assumption]].
  intros [a i] [b j] _ _ E. simpl in E. congruence.
Qed.

(* Dims of the gathering side, of the other, of the summed index; masks, places and the witness. *)
Definition adjoint_pair (da db do : list Z) mF f mB g (p : list Z -> list Z) :=
  forall x y, dot (box da) (gathered (A := list Z) (B := list Z) mF f x) y = dot (box db) x
    (gathered_sum (A := list Z) (B := list Z) (box do) mB g y).

Definition stride (s : Z) := (0 < s)%Z. (* a stride, a dilation or the size of a window *)

Lemma adjoint_by_places da db do mF f mB g p :
  (forall b o, inside b db -> inside o do -> mB b o = true -> inside (g b o) da /\ mF (g b o) = true /\ f (g b o) =
    b /\ p (g b o) = o) ->
  (forall a, inside a da -> mF a = true -> inside (f a) db /\ inside (p a) do /\ mB (f a) (p a) = true /\
    g (f a) (p a) = a) ->
  adjoint_pair da db do mF f mB g p.
Proof.
  intros H K x y. apply masked_adjoint with (p := p); try apply NoDup_box.
  split; intros; rewrite ?in_box in *; auto.
Qed.

(* ---- axis by axis ------------------------------------------------------------------------------------------------ *)

(* What an op does along one axis, as it is printed: sizes of the gathering side (two for a window: place and offset),
   of the other and of what is summed over; masks and places of both sides; the witness. *)
Record axis := Axis {
  outer : list Z; inner : list Z; over : list Z; mask : list Z -> bool; place : list Z -> list Z;
  mask_back : list Z -> list Z -> bool; place_back : list Z -> list Z -> list Z; again : list Z -> list Z }.

Definition undone (u : axis) :=
  (forall b o, inside b (inner u) -> inside o (over u) -> mask_back u b o = true ->
     inside (place_back u b o) (outer u) /\ mask u (place_back u b o) = true /\ place u (place_back u b o) = b /\
       again u (place_back u b o) = o) /\
  (forall a, inside a (outer u) -> mask u a = true ->
     inside (place u a) (inner u) /\ inside (again u a) (over u) /\ mask_back u (place u a) (again u a) = true /\
       place_back u (place u a) (again u a) = a).

(* Two next to each other: indices one behind the other, both masks. *)
Definition front (d i : list Z) := firstn (length d) i.
Definition rest (d i : list Z) := skipn (length d) i.
Definition beside (u v : axis) := Axis (outer u ++ outer v) (inner u ++ inner v) (over u ++ over v)
  (fun i => mask u (front (outer u) i) && mask v (rest (outer u) i))%bool
  (fun i => place u (front (outer u) i) ++ place v (rest (outer u) i))
  (fun i o => mask_back u (front (inner u) i) (front (over u) o) && mask_back v (rest (inner u) i)
    (rest (over u) o))%bool
  (fun i o => place_back u (front (inner u) i) (front (over u) o) ++ place_back v (rest (inner u) i) (rest (over u) o))
  (fun i => again u (front (outer u) i) ++ again v (rest (outer u) i)).
Definition no_axis := Axis [] [] [] (fun _ => true) (fun _ => []) (fun _ _ => true) (fun _ _ => []) (fun _ => []).
Definition whole (us : list axis) := fold_right beside no_axis us.

Lemma inside_length i d : inside i d -> length i = length d.
Proof. revert i. induction d as [|n d IH]; intros [|a i]; simpl; intuition. Qed.
Lemma inside_app i j d e : inside i d -> inside j e -> inside (i ++ j) (d ++ e).
Proof. revert i. induction d as [|n d IH]; intros [|a i]; simpl; intuition. Qed.
Lemma inside_cut i d e : inside i (d ++ e) -> inside (front d i) d /\ inside (rest d i) e /\ i = front d i ++ rest d i.
Proof.
  unfold front, rest. revert i. induction d as [|n d IH]; intros [|a i]; simpl; try tauto. intros [L H].
  destruct (IH i H) as (F & S & E). repeat split; try lia; trivial. now rewrite E at 1.
Qed.
Lemma front_app i j d : inside i d -> front d (i ++ j) = i.
Proof. intros H. unfold front. rewrite <- (inside_length i d H), firstn_app, firstn_all, Nat.sub_diag. simpl.
  apply app_nil_r. Qed.
Lemma rest_app i j d : inside i d -> rest d (i ++ j) = j.
Proof. intros H. unfold rest. now rewrite <- (inside_length i d H), skipn_app, skipn_all, Nat.sub_diag. Qed.

Lemma undone_beside u v : undone u -> undone v -> undone (beside u v).
Proof.
  intros [Hu Ku] [Hv Kv]. split; simpl.
  - intros b o B O M. apply andb_prop in M. destruct M as [Mu Mv].
    destruct (inside_cut b _ _ B) as (Bu & Bv & EB), (inside_cut o _ _ O) as (Ou & Ov & EO).
    destruct (Hu _ _ Bu Ou Mu) as (Iu & Nu & Fu & Pu), (Hv _ _ Bv Ov Mv) as (Iv & Nv & Fv & Pv).
    rewrite front_app, rest_app, Nu, Nv, Fu, Fv, Pu, Pv by assumption. rewrite <- EB, <- EO. auto using inside_app.
  - intros a A M. apply andb_prop in M. destruct M as [Mu Mv]. destruct (inside_cut a _ _ A) as (Au & Av & EA).
    destruct (Ku _ Au Mu) as (Bu & Ou & Nu & Gu), (Kv _ Av Mv) as (Bv & Ov & Nv & Gv).
    rewrite !front_app, !rest_app, Nu, Nv, Gu, Gv by assumption. rewrite <- EA. auto using inside_app.
Qed.
Lemma undone_whole us : List.Forall undone us -> undone (whole us).
Proof.
  induction 1 as [|u us H N IH]; simpl; [|now apply undone_beside].
  split; simpl; [intros [|] [|] | intros [|]]; simpl; tauto.
Qed.

(* Any rank, each axis with anything done to it that is undone. *)
Theorem each_axis us : List.Forall undone us -> forall x y,
  dot (box (outer (whole us))) (gathered (mask (whole us)) (place (whole us)) x) y =
  dot (box (inner (whole us))) x (gathered_sum (box (over (whole us))) (mask_back (whole us))
    (place_back (whole us)) y).
Proof.
  intros H x y. apply undone_whole in H. destruct H as [H K]. apply masked_adjoint with (p := again (whole us));
    try apply NoDup_box.
  split; intros; rewrite ?in_box in *; auto.
Qed.

(* ---- coordinates in another order -------------------------------------------------------------------------------- *)

Definition pick (p : list nat) (i : list Z) : list Z := map (fun k => nth k i 0%Z) p.
Definition inverse (p q : list nat) (rank : nat) := length p = rank /\ length q = rank /\
  forall k, (k < rank)%nat -> (nth k p 0 < rank /\ nth k q 0 < rank /\ nth (nth k p 0) q 0 = k /\
    nth (nth k q 0) p 0 = k)%nat.

Lemma inside_nth i d : inside i d <-> length i = length d /\ forall k, (k < length d)%nat ->
  (0 <= nth k i 0 < nth k d 0)%Z.
Proof.
  revert i. induction d as [|n d IH]; intros [|a i]; simpl.
  - split; [split; [reflexivity | lia] | trivial].
  - split; [tauto | now intros [E _]].
  - split; [tauto | now intros [E _]].
  - rewrite IH. split.
    + intros (L & E & H). split; [congruence|]. intros [|k] K; [assumption | apply H; lia].
    + intros (E & H). split; [apply (H O); lia|]. split; [congruence|]. intros k K. apply (H (S k)). lia.
Qed.
Lemma nth_pick p i k : (k < length p)%nat -> nth k (pick p i) 0%Z = nth (nth k p O) i 0%Z.
Proof. intros K. unfold pick. rewrite (nth_indep _ 0%Z (nth O i 0%Z)) by now rewrite map_length.
  apply (map_nth (fun k => nth k i 0%Z)). Qed.
Lemma pick_pick p q i : inverse p q (length i) -> pick q (pick p i) = i.
Proof.
  intros (P & Q & H). apply (nth_ext _ _ 0%Z 0%Z); [unfold pick; rewrite map_length; congruence|].
  intros k K. unfold pick in K. rewrite map_length in K. destruct (H k ltac:(congruence)) as (_ & L & _ & E).
  rewrite nth_pick, nth_pick by congruence. now rewrite E.
Qed.
Lemma inverse_sym p q r : inverse p q r -> inverse q p r.
Proof. intros (P & Q & H). repeat split; trivial; now destruct (H k H0) as (? & ? & ? & ?). Qed.
Lemma inside_pick p q i d : inverse p q (length d) -> inside i d -> inside (pick p i) (pick p d).
Proof.
  intros (P & Q & H) I. apply inside_nth in I. destruct I as [E I]. apply inside_nth. unfold pick at 1 2 3.
  rewrite !map_length. split; [reflexivity|].
  intros k K. rewrite !nth_pick by assumption. apply I. apply H. congruence.
Qed.

Lemma dot_moved p q d u v : inverse p q (length d) -> dot (box (pick p d)) u v = dot (box d) (fun j => u (pick p j))
  (fun j => v (pick p j)).
Proof.
  intros N. unfold dot. rewrite <- (total_map (pick p) (box d) (fun i => u i * v i)). apply total_permutation.
  apply NoDup_Permutation.
  - apply NoDup_box.
  - apply NoDup_map_in; [|apply NoDup_box]. intros a b A B E. apply in_box, inside_length in A.
    apply in_box, inside_length in B.
    rewrite <- (pick_pick p q a), <- (pick_pick p q b) by congruence. now rewrite E.
  - intros i. rewrite in_map_iff, in_box. split.
    + intros I. pose proof (inside_length _ _ I) as E.
      assert (L : length (pick p d) = length d) by (unfold pick; rewrite map_length; apply N).
      exists (pick q i). rewrite in_box. split; [apply pick_pick; rewrite E, L; now apply inverse_sym|].
      rewrite <- (pick_pick p q d) by assumption. apply (inside_pick q p);
        [rewrite L; now apply inverse_sym | assumption].
    + intros (a & <- & A). apply in_box in A. now apply (inside_pick p q).
Qed.

(* Any permutation, at any rank: out axis k is in axis (nth k p). *)
Theorem adjoint_permute p q d : inverse p q (length d) -> forall x y,
  dot (box (pick p d)) (fun i => x (pick q i)) y = dot (box d) x (fun j => y (pick p j)).
Proof.
  intros N x y. rewrite (dot_moved p q) by assumption. unfold dot. apply total_ext. intros j J.
  apply in_box, inside_length in J.
  rewrite pick_pick by now rewrite J. reflexivity.
Qed.

(* ---- reshape, any ranks: the place in row-major order stays ------------------------------------------------------ *)

Definition numel (d : list Z) : Z := fold_right Z.mul 1%Z d.
Fixpoint flat (d i : list Z) : Z := match d, i with _ :: d, a :: i => (a * numel d + flat d i)%Z | _, _ => 0%Z end.
Fixpoint unflat (d : list Z) (k : Z) : list Z := match d with [] => [] | _ :: d =>
  (k / numel d)%Z :: unflat d (k mod numel d)%Z end.

Lemma numel_pos i d : inside i d -> (0 < numel d)%Z.
Proof.
  revert i. induction d as [|n d IH]; intros i H; simpl; [lia|]. destruct i as [|a i]; simpl in H; [contradiction|].
  destruct H as [L H]. specialize (IH i H). apply Z.mul_pos_pos; lia.
Qed.
Lemma flat_inside d i : inside i d -> (0 <= flat d i < numel d)%Z.
Proof.
  revert i. induction d as [|n d IH]; intros i H; destruct i as [|a i]; simpl in *; try contradiction; [lia|].
  destruct H as [L H]. specialize (IH i H). nia.
Qed.
Lemma unflat_flat d i : inside i d -> unflat d (flat d i) = i.
Proof.
  revert i. induction d as [|n d IH]; intros i H; destruct i as [|a i]; simpl in *; try contradiction; [reflexivity|].
  destruct H as [L H]. pose proof (flat_inside d i H).
  replace ((a * numel d + flat d i) / numel d)%Z with a by (rewrite Z.div_add_l, Z.div_small; lia).
  replace ((a * numel d + flat d i) mod numel d)%Z with (flat d i) by (rewrite Z.add_comm, Z.mod_add, Z.mod_small; lia).
  now rewrite IH.
Qed.
Lemma numel_nonneg d : List.Forall (Z.le 0) d -> (0 <= numel d)%Z.
Proof. induction 1; simpl; nia. Qed.
Lemma unflat_inside d k : List.Forall (Z.le 0) d -> (0 <= k < numel d)%Z -> inside (unflat d k) d /\
  flat d (unflat d k) = k.
Proof.
  intros N. revert k. induction N as [|n d L N IH]; intros k H; simpl in *; [lia|].
  pose proof (numel_nonneg d N). assert (P : (0 < numel d)%Z) by nia.
  destruct (IH (k mod numel d)%Z (Z.mod_pos_bound k _ P)) as [I F]. pose proof (Z.div_mod k (numel d) ltac:(lia)) as E.
  pose proof (Z.mod_pos_bound k _ P). repeat split; trivial;
    [apply Z.div_pos; lia | apply Z.div_lt_upper_bound; nia |]. rewrite F. lia.
Qed.

Theorem adjoint_reshape dx dy : List.Forall (Z.le 0) dx -> List.Forall (Z.le 0) dy -> numel dx = numel dy -> forall x y,
  dot (box dy) (fun i => x (unflat dx (flat dy i))) y = dot (box dx) x (fun j => y (unflat dy (flat dx j))).
Proof.
  intros NX NY E x y.
  assert (P : adjoint_pair dy dx [] (fun _ => true) (fun i => unflat dx (flat dy i)) (fun _ _ => true)
    (fun j _ => unflat dy (flat dx j)) (fun _ => [])).
  { apply adjoint_by_places; [intros b o H O _ | intros a H _].
    - destruct o; [|contradiction]. destruct (unflat_inside dy (flat dx b) NY) as [I F];
      [rewrite <- E; now apply flat_inside|].
      rewrite F, unflat_flat; auto.
    - destruct (unflat_inside dx (flat dy a) NX) as [I F]; [rewrite E; now apply flat_inside|].
      rewrite F, unflat_flat; simpl; auto. }
  specialize (P x y). unfold gathered, gathered_sum in P. simpl in P. rewrite P. apply total_ext. intros. ring.
Qed.

(* ---- gather and scatter: places from a tensor -------------------------------------------------------------------- *)

(* x[n, r...] read at at[s...]; an index outside reads 0.  Scatter adds there; outside drops. *)
Section Gather.
Context {S T : Type} (ls : list S) (lr : list T) (n : Z) (at_ : S -> Z).
Definition valid s := ((0 <=? at_ s) && (at_ s <? n))%Z%bool.
Definition gather (x : Z -> T -> R) (s : S) (r : T) := if valid s then x (at_ s) r else 0.
Definition scatter (y : S -> T -> R) (j : Z) (r : T) := total ls (fun s => if (at_ s =? j)%Z then y s r else 0).

Lemma total_pick k f : total (upto n) (fun j => if (k =? j)%Z then f j else 0) = if ((0 <=? k) && (k <? n))%Z%bool
  then f k else 0.
Proof.
  assert (P : forall l, NoDup l -> total l (fun j => if (k =? j)%Z then f j else 0) = if in_dec Z.eq_dec k l
    then f k else 0).
  { induction 1 as [|a l H N IH]; [reflexivity|]. unfold total in *. simpl fold_right. rewrite IH.
    destruct (Z.eqb_spec k a) as [->|D]; destruct (in_dec Z.eq_dec _ l) as [I|I];
      destruct (in_dec Z.eq_dec _ (a :: l)) as [J|J]; simpl in J; try tauto; try lra.
    - destruct J as [J|J]; [congruence | contradiction]. }
  rewrite P by apply NoDup_upto. destruct (in_dec Z.eq_dec k (upto n)) as [I|I]; rewrite in_upto in I;
  destruct (Z.leb_spec 0 k), (Z.ltb_spec k n); simpl; trivial; lia.
Qed.

Theorem adjoint_gather x y :
  total ls (fun s => dot lr (gather x s) (y s)) = total (upto n) (fun j => dot lr (x j) (scatter y j)).
Proof.
  unfold dot. rewrite total_swap. rewrite (total_swap (upto n)). apply total_ext. intros r _. unfold scatter.
  rewrite (total_ext (upto n) _ (fun j => total ls (fun s => if (at_ s =? j)%Z then x j r * y s r else 0))).
  2: { intros j _. rewrite total_scal. apply total_ext. intros s _. destruct (at_ s =? j)%Z; ring. }
  rewrite total_swap. apply total_ext. intros s _. rewrite (total_pick (at_ s) (fun j => x j r * y s r)).
  unfold gather, valid. destruct ((0 <=? at_ s) && (at_ s <? n))%Z%bool; ring.
Qed.
(* <scatter u, g> = <u, gather g>: the same the other way round; the base's own gradient is g *)
Theorem adjoint_scatter u g :
  total (upto n) (fun j => dot lr (scatter u j) (g j)) = total ls (fun s => dot lr (u s) (gather g s)).
Proof.
  transitivity (total (upto n) (fun j => dot lr (g j) (scatter u j))).
  - apply total_ext. intros. unfold dot. apply total_ext. intros. ring.
  - rewrite <- adjoint_gather. apply total_ext. intros. unfold dot. apply total_ext. intros. ring.
Qed.
End Gather.

(* ---- contraction: with any batch, m, n and k groups -------------------------------------------------------------- *)

Section Contract.
Context {B M N K : Type} (lb : list B) (lm : list M) (ln_ : list N) (lk : list K).
Definition contract {I J L : Type} (ll : list L) (a : B -> I -> L -> R) (w : B -> J -> L -> R) b i j :=
  total ll (fun l => a b i l * w b j l).
Definition dot3 {I J : Type} (li : list I) (lj : list J) (u v : B -> I -> J -> R) :=
  total lb (fun b => total li (fun i => dot lj (u b i) (v b i))).
Definition transpose {I J : Type} (u : B -> I -> J -> R) b j i := u b i j.

Theorem adjoint_contract_a a w g : dot3 lm ln_ (contract lk a w) g = dot3 lm lk a (contract ln_ g (transpose w)).
Proof.
  unfold dot3, contract, transpose, dot. apply total_ext; intros b _. apply total_ext; intros m _.
  rewrite (total_ext ln_ _ (fun n => total lk (fun k => a b m k * (g b m n * w b n k)))).
  2: { intros n _. rewrite total_scal_r. apply total_ext. intros. ring. }
  rewrite total_swap. apply total_ext. intros k _. now rewrite total_scal.
Qed.
Theorem adjoint_contract_w a w g : dot3 lm ln_ (contract lk a w) g = dot3 ln_ lk w
  (contract lm (transpose g) (transpose a)).
Proof.
  unfold dot3, contract, transpose, dot. apply total_ext; intros b _. rewrite total_swap. apply total_ext; intros n _.
  rewrite (total_ext lm _ (fun m => total lk (fun k => w b n k * (g b m n * a b m k)))).
  2: { intros m _. rewrite total_scal_r. apply total_ext. intros. ring. }
  rewrite total_swap. apply total_ext. intros k _. now rewrite total_scal.
Qed.
End Contract.

(* ---- products: each factor's slope is the product of the others, zeros included ---------------------------------- *)

Definition product {A} (l : list A) (x : A -> R) := fold_right (fun a s => x a * s) 1 l.
Definition put {A} (eq : forall a b : A, {a = b} + {a <> b}) (x : A -> R) (k : A) (t : R) (a : A) :=
  if eq a k then t else x a.
Lemma product_ext {A} (l : list A) x y : (forall a, In a l -> x a = y a) -> product l x = product l y.
Proof. induction l as [|a l IH]; intros H; simpl; [reflexivity|]. rewrite (H a) by now left.
  rewrite IH; [reflexivity|]. intros; apply H; now right. Qed.
Lemma product_put {A} eq (l : list A) x k t : NoDup l -> In k l -> product l (put eq x k t) =
  t * product l (put eq x k 1).
Proof.
  induction 1 as [|a l H N IH]; intros I; [destruct I|]. simpl. destruct I as [->|I].
  - unfold put at 1 3. destruct (eq k k); [|congruence].
    rewrite (product_ext l (put eq x k t) x), (product_ext l (put eq x k 1) x); [ring | |];
    intros b J; unfold put; destruct (eq b k); congruence.
  - rewrite (IH I). unfold put at 1 3. destruct (eq a k); [congruence|]. ring.
Qed.
(* what the engine's table of ones on the diagonal multiplies *)
Theorem slope_product {A} eq (l : list A) x k : NoDup l -> In k l ->
  is_derive (fun t => product l (put eq x k t)) (x k) (product l (put eq x k 1)).
Proof.
  intros N I. apply (is_derive_ext (fun t => t * product l (put eq x k 1))).
  - intro t. symmetry. now apply product_put.
  - auto_derive; [trivial | ring].
Qed.

(* Where the size is a constant the engine multiplies in pairs: up, level by level; on the way down each of a pair
   gets what its pair got times its partner. Ones fill up to a power of two. *)
Definition partner k := (2 * (k / 2) + (1 - k mod 2))%nat.
Definition paired (x : nat -> R) m := x (2 * m)%nat * x (2 * m + 1)%nat.
Fixpoint tree (levels : nat) (x : nat -> R) (g : R) (k : nat) : R :=
  match levels with O => g | S l => tree l (paired x) g (k / 2) * x (partner k) end.
Definition filled (n : nat) (x : nat -> R) k := if (k <? n)%nat then x k else 1.

Lemma product_app {A} (l m : list A) x : product (l ++ m) x = product l x * product m x.
Proof. induction l; simpl; [ring|]. rewrite IHl. ring. Qed.
Lemma product_paired n x : product (seq 0 (2 * n)) x = product (seq 0 n) (paired x).
Proof.
  induction n as [|n IH]; [reflexivity|]. replace (2 * S n)%nat with (2 * n + 1 + 1)%nat by lia.
  rewrite (seq_app (2 * n + 1) 1), (seq_app (2 * n) 1), !product_app, IH. replace (S n) with (n + 1)%nat by lia.
  rewrite (seq_app n 1), product_app. simpl seq.
  unfold paired at 3. simpl product. replace (n + (n + 0))%nat with (2 * n)%nat by lia. ring.
Qed.
Lemma halves k : k = (2 * (k / 2) + k mod 2)%nat /\ (k mod 2 = 0 \/ k mod 2 = 1)%nat.
Proof. split; [apply Nat.div_mod_eq | pose proof (Nat.mod_upper_bound k 2); lia]. Qed.
Lemma paired_put x k t m : paired (put Nat.eq_dec x k t) m = put Nat.eq_dec (paired x) (k / 2)%nat
  (t * x (partner k)) m.
Proof.
  destruct (halves k) as [E C]. unfold paired, put, partner. set (h := (k / 2)%nat) in *.
  set (b := (k mod 2)%nat) in *. clearbody h b.
  destruct (Nat.eq_dec m h) as [->|N]; destruct (Nat.eq_dec (2 * _) k) as [F|F];
    destruct (Nat.eq_dec (2 * _ + 1) k) as [G|G]; try (exfalso; lia); trivial.
  - replace (2 * h + (1 - b))%nat with (2 * h + 1)%nat by lia. reflexivity.
  - replace (2 * h + (1 - b))%nat with (2 * h)%nat by lia. ring.
Qed.
Lemma tree_is levels x g k : (k < 2 ^ levels)%nat -> tree levels x g k = g * product (seq 0 (2 ^ levels))
  (put Nat.eq_dec x k 1).
Proof.
  revert x k. induction levels as [|l IH]; intros x k K.
  - simpl in *. unfold put. destruct (Nat.eq_dec 0 k); [ring | lia].
  - assert (H : (k / 2 < 2 ^ l)%nat) by (apply Nat.div_lt_upper_bound; simpl in K; lia).
    cbn [tree]. rewrite IH by assumption. replace (2 ^ S l)%nat with (2 * 2 ^ l)%nat by reflexivity.
    rewrite product_paired.
    rewrite (product_ext _ (paired _) (put Nat.eq_dec (paired x) (k / 2)%nat (1 * x (partner k)))) by (intros;
      apply paired_put).
    rewrite (product_put Nat.eq_dec _ _ _ (1 * x (partner k))); [ring | apply seq_NoDup | apply in_seq; lia].
Qed.
Lemma product_ones {A} (l : list A) x : (forall a, In a l -> x a = 1) -> product l x = 1.
Proof. induction l as [|a l IH]; intros H; simpl; [reflexivity|].
  rewrite IH, H; [ring | now left | intros; apply H; now right]. Qed.
Lemma product_filled n m x : (n <= m)%nat -> product (seq 0 m) (filled n x) = product (seq 0 n) x.
Proof.
  intros L. replace m with (n + (m - n))%nat by lia.
  rewrite seq_app, product_app, (product_ones (seq _ (m - n))), Rmult_1_r.
  - apply product_ext. intros a H. apply in_seq in H. unfold filled. destruct (Nat.ltb_spec a n); [reflexivity | lia].
  - intros a H. apply in_seq in H. unfold filled. destruct (Nat.ltb_spec a n); [lia | reflexivity].
Qed.
Theorem product_tree levels n x g k : (k < n <= 2 ^ levels)%nat ->
  tree levels (filled n x) g k = g * product (seq 0 n) (put Nat.eq_dec x k 1).
Proof.
  intros [K L]. rewrite tree_is by lia. f_equal. rewrite <- (product_filled n (2 ^ levels)) by assumption.
  apply product_ext. intros a _. unfold put, filled. destruct (Nat.eq_dec a k) as [->|N]; [|reflexivity].
  now destruct (Nat.ltb_spec k n); [|lia].
Qed.

(* ---- the largest of n: a convex combination of those that tie ---------------------------------------------------- *)

Section Largest.
Context {A : Type} (l : list A) (x : A -> R) (top : R).
Definition reaches a := if Req_EM_T (x a) top then 1 else 0.
Definition ties := total l reaches.
Definition share a := reaches a / ties.
Theorem shares_convex : (exists a, In a l /\ x a = top) ->
  (forall a, 0 <= share a) /\ total l share = 1 /\ (forall a, x a <> top -> share a = 0).
Proof.
  intros (k & I & E). assert (P : forall a, 0 <= reaches a) by (intro a; unfold reaches;
    destruct (Req_EM_T (x a) top); lra).
  assert (Q : 0 < ties).
  { unfold ties. clear - I E P. induction l as [|a m IH]; [destruct I|]. simpl. destruct I as [->|I].
    - assert (0 <= total m reaches) by (clear - P; induction m; simpl; [lra | specialize (P a); lra]).
      unfold reaches at 1. destruct (Req_EM_T (x k) top); lra.
    - specialize (IH I). specialize (P a). lra. }
  repeat split.
  - intro a. unfold share. apply Rmult_le_pos; [apply P | left; now apply Rinv_0_lt_compat].
  - unfold share, Rdiv. rewrite <- total_scal_r. fold ties. field. lra.
  - intros a N. unfold share, reaches. destruct (Req_EM_T (x a) top); [contradiction|]. lra.
Qed.
End Largest.

(* Where one element alone is the largest, the largest of n has the slopes 1 there and 0 elsewhere. *)
Definition largest {A} (k : A) (l : list A) (x : A -> R) := fold_right (fun a m => Rmax (x a) m) (x k) l.
Lemma largest_is {A} (k : A) (l : list A) x : (forall a, In a l -> x a <= x k) -> largest k l x = x k.
Proof.
  unfold largest. induction l as [|a l IH]; intros H; simpl; [reflexivity|]. rewrite IH by (intros; apply H; now right).
  apply Rmax_right, H. now left.
Qed.

(* ---- the tactics that close what is printed ---------------------------------------------------------------------- *)

Ltac flags := repeat match goal with
  | H : (_ && _)%bool = true |- _ => apply andb_prop in H; destruct H
  | H : (_ <=? _)%Z = true |- _ => apply Z.leb_le in H
  | H : (_ <? _)%Z = true |- _ => apply Z.ltb_lt in H
  | H : (_ =? _)%Z = true |- _ => apply Z.eqb_eq in H
  | |- (_ && _)%bool = true => apply andb_true_intro; split
  | |- (_ <=? _)%Z = true => apply Z.leb_le
  | |- (_ <? _)%Z = true => apply Z.ltb_lt
  | |- (_ =? _)%Z = true => apply Z.eqb_eq
  end.
Ltac coordinates := repeat match goal with
  | H : inside ?i _ |- _ => is_var i; destruct i; cbn [inside] in H; try contradiction
  | H : _ /\ _ |- _ => destruct H
  end.
Ltac same_list := repeat match goal with |- _ :: _ = _ :: _ => f_equal end; try reflexivity.
(* what is a multiple of the stride *)
Ltac multiples := repeat match goal with
  | i : Z |- context [(?e / ?s)%Z] => is_var s; replace (e / s)%Z with i by (replace e with (i * s)%Z by ring;
    now rewrite Z.div_mul by lia)
  | i : Z |- context [(?e mod ?s)%Z] => is_var s; replace (e mod s)%Z with 0%Z by (replace e with (i * s)%Z by ring;
    now rewrite Z.mod_mul by lia)
  end.
(* every other quotient and remainder, as the numbers that they are *)
Ltac divide e s := let q := fresh "q" in let r := fresh "r" in
  pose proof (Z.div_mod e s ltac:(lia)); pose proof (Z.mod_pos_bound e s ltac:(lia));
  set (q := (e / s)%Z) in *; set (r := (e mod s)%Z) in *; clearbody q r.
Ltac quotients := repeat match goal with
  | |- context [(?e / ?s)%Z] => divide e s
  | H : context [(?e / ?s)%Z] |- _ => divide e s
  | H : context [(?e mod ?s)%Z] |- _ => divide e s
  end.
(* Leaves what is about the axis of the goal: hypotheses linked to it by a variable that is no stride. *)
Ltac one_axis :=
  repeat match goal with
  | v : Z, H : ?T |- ?G =>
      lazymatch type of T with Prop => idtac end; lazymatch T with stride _ => fail | _ => idtac end;
      lazymatch goal with _ : stride v |- _ => fail | _ => idtac end;
      lazymatch T with context [v] => idtac end; lazymatch G with context [v] => idtac end; revert H
  end;
  repeat match goal with H : ?T |- _ => lazymatch type of T with Prop => lazymatch T with stride _ => fail | _ =>
    clear H end end end;
  intros; strides
with strides := repeat match goal with H : stride ?s |- _ => lazymatch goal with _ : (0 < s)%Z |- _ => fail | _ =>
  assert (0 < s)%Z by exact H end end.
Ltac place := first [lia | (one_axis; multiples; first [lia | (quotients; nia)])].
Ltac axis_places := intros; split; cbn [outer inner over mask place mask_back place_back again]; intros; strides;
  coordinates; cbn [inside] in *;
  flags; repeat split; flags; same_list; place.

Arguments adjoint_gather : clear implicits.
Arguments adjoint_scatter : clear implicits.
Arguments adjoint_contract_a : clear implicits.
Arguments adjoint_contract_w : clear implicits.
Arguments slope_product : clear implicits.
Arguments shares_convex : clear implicits.
