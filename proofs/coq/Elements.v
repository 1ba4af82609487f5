(* Elements: what the elements of whole-tensor ops are, of the ops that have a row TENSOR in src/ir/intervals.def, for
   every rank and size.

   Elements are the 64 bits of the value, read as a signed integer.  Each op is written here as a function of its
   sources; a row's theorem, which is printed (src/prove/elements.c), says that every element is the one that the row
   names, with what the sources hold for x, y and z, and lies between the row's bounds.  That the ops compute what is
   written here is tried: tests have Coq compute drawn tensors by these definitions (test_elements). *)
From Tenet Require Export Movement.
Import ListNotations.

Notation tensor := (tensor Z).

(* ---- what rows are written in ------------------------------------------------------------------------------------ *)

Definition plus := Z.add.
Definition minus := Z.sub.
Definition least := Z.min.
Definition most := Z.max.
Definition below := Z.ltb.
Definition choose (p : bool) (x y : Z) := if p then x else y.

Definition between (lo hi v : Z) := lo <= v <= hi.
(* Bounds of a tensor are known: they hold its elements, if it has any. *)
Definition bounded (lo hi : Z) (x : tensor) := lo <= hi /\ forall i, within (dim x) i -> between lo hi (at_ x i).

(* ---- ops that Movement does not have, and reshape by index ------------------------------------------------------- *)

Definition scalar (v : Z) : tensor := Tensor _ (fun _ => 1) (fun _ => v).
Definition iota (n : Z) : tensor := Tensor _ (fun k => match k with O => n | S _ => 1 end) (fun i => i O).
(* What a loop's counter is in each of its turns. *)
Definition range (n : Z) : tensor := iota n.
Definition assign (x y : tensor) : tensor := y.
Definition where_ (p x y : tensor) : tensor := Tensor _ (dim p) (fun i => if at_ p i =? 0 then at_ y i else at_ x i).

Fixpoint count (n : nat) (d : index) : Z := match n with O => 1 | S m => count m d * d m end.
Fixpoint flat_at (n : nat) (d i : index) : Z := match n with O => 0 | S m => flat_at m d i * d m + i m end.
Fixpoint index_at (n : nat) (d : index) (v : Z) : index :=
  match n with O => fun _ => 0 | S m => fun k => if Nat.eqb k m then v mod d m else index_at m d (v / d m) k end.
(* x has rank n, the result rank m. *)
Definition reshaped (n : nat) (x : tensor) (m : nat) (d : index) : tensor :=
  Tensor _ d (fun i => at_ x (index_at n (dim x) (flat_at m d i))).

Definition places (d size stride dilation : Z) := if d <? (size - 1) * dilation + 1 then 0
  else (d - ((size - 1) * dilation + 1)) / stride + 1.
Definition window (x : tensor) (axis : nat) (size stride dilation : Z) : tensor :=
  Tensor _ (fun k => if (k <? axis)%nat then dim x k else if (k =? axis)%nat then places (dim x axis) size
    stride dilation
                     else if (k =? S axis)%nat then size else dim x (pred k))
           (fun i => at_ x (fun k => if (k <? axis)%nat then i k else if (k =? axis)%nat
             then i axis * stride + i (S axis) * dilation else i (S k))).

(* at holds places of x's first axis, and has the given rank. *)
Definition gather (x : tensor) (rank : nat) (at' : tensor) : tensor :=
  Tensor _ (fun k => if (k <? rank)%nat then dim at' k else dim x (S (k - rank)))
           (fun i => let v := at_ at' (fun k => if (k <? rank)%nat then i k else 0) in
                     if (0 <=? v) && (v <? dim x O)
                       then at_ x (fun k => match k with O => v | S k => i (rank + k)%nat end) else 0).

(* A reduction starts with a value and takes all that its axes hold; they stay, of size 1. *)
Definition put (i : index) (k : nat) (v : Z) : index := fun j => if Nat.eqb j k then v else i j.
Definition turns (n : Z) : list Z := map Z.of_nat (seq 0 (Z.to_nat n)).
Fixpoint along (n : nat) (d : index) (a : axes) (i : index) : list index :=
  match n with O => [i] | S m => if has a m then flat_map (fun v => along m d a (put i m v)) (turns (d m))
    else along m d a i end.
Definition chosen (best : Z -> Z -> Z) (init : Z) (rank : nat) (x : tensor) (a : axes) : tensor :=
  Tensor _ (fun k => if has a k then 1 else dim x k)
    (fun i => fold_left best (map (at_ x) (along rank (dim x) a i)) init).
(* Maxima and minima, of numbers with a sign or without, of truth values: one of the two, and not the value that it
   starts with. *)
Definition chooses (best : Z -> Z -> Z) (init lo hi : Z) :=
  between lo hi init /\ (forall x y, best x y = x \/ best x y = y) /\ (forall x, between lo hi x -> best init x = x).

(* What the shape rules demand. *)
Definition ranked (n : nat) (d : index) := forall k, 0 <= d k /\ ((n <= k)%nat -> d k = 1).
Definition same_count (n : nat) (d : index) (m : nat) (e : index) := ranked n d /\ ranked m e /\ count n d = count m e.
Definition pads_below (n : nat) (p : pads) := forall k, (n <= k)%nat -> lo p k = 0 /\ hi p k = 0.
Definition legal_window (size stride dilation : Z) := 0 < size /\ 0 < stride /\ 0 < dilation.
Definition same_dims (x y : tensor) := forall k, dim x k = dim y k.
Definition truth (x : tensor) := forall i, at_ x i = 0 \/ at_ x i = 1.
Definition axes_below (n : nat) (a : axes) := forall k, has a k = true -> (k < n)%nat.
(* 1 only if the reduced axes have elements. *)
Definition some_along (some : Z) (x : tensor) (a : axes) := 0 < some -> forall k, has a k = true -> 0 < dim x k.

(* ---- which element each op reads --------------------------------------------------------------------------------- *)

Definition reads (x r : tensor) := forall i, within (dim r) i -> exists j, within (dim x) j /\ at_ r i = at_ x j.
Definition reads_or_zero (x r : tensor) := forall i, within (dim r) i ->
  (exists j, within (dim x) j /\ at_ r i = at_ x j) \/ at_ r i = 0.

Lemma detach_reads x : reads x (detach x).
Proof. intros i W. exists i. auto. Qed.
Lemma contig_reads x : reads x (contig x).
Proof. intros i W. exists i. auto. Qed.
Lemma flip_reads x a : reads x (flip x a).
Proof. intros i W. eexists. split; [|reflexivity]. intro k. specialize (W k). simpl in W. destruct (has a k); lia. Qed.
Lemma permute_reads x p : reads x (permute x p).
Proof.
  intros i W. eexists. split; [|reflexivity]. intro k. specialize (W (from p k)). simpl in W. now rewrite to_from in W.
Qed.
Lemma shrink_reads x s : legal_part s (dim x) -> reads x (shrink x s).
Proof. intros L i W. eexists. split; [|reflexivity]. intro k. specialize (W k). specialize (L k). simpl in W. nia. Qed.
Lemma expand_reads x d : legal_expand (dim x) d -> reads x (expand x d).
Proof.
  intros L i W. eexists. split; [|reflexivity]. intro k. specialize (W k). specialize (L k). simpl in W.
  destruct (Z.eqb_spec (dim x k) 1); lia.
Qed.
Lemma window_reads x axis n s l : legal_window n s l -> reads x (window x axis n s l).
Proof.
  intros (N & S' & L) i W. eexists. split; [|reflexivity]. intro k. cbn beta.
  destruct (Nat.ltb_spec k axis) as [K|K]; [specialize (W k); cbn [dim window] in W;
    now rewrite (proj2 (Nat.ltb_lt k axis)) in W|].
  destruct (Nat.eqb_spec k axis) as [-> |D].
  - pose proof (W axis) as P. pose proof (W (S axis)) as O. cbn [dim window] in P, O.
    rewrite Nat.ltb_irrefl, Nat.eqb_refl in P. unfold places in P.
    rewrite (proj2 (Nat.ltb_ge (S axis) axis)), (proj2 (Nat.eqb_neq (S axis) axis)), Nat.eqb_refl in O by lia.
    destruct (Z.ltb_spec (dim x axis) ((n - 1) * l + 1)) as [F|F]; [lia|].
    pose proof (Z.mul_div_le (dim x axis - ((n - 1) * l + 1)) s ltac:(lia)) as M.
    remember ((dim x axis - ((n - 1) * l + 1)) / s) as q eqn:Q. clear Q.
    assert (i axis * s <= q * s) by (apply Z.mul_le_mono_nonneg_r; lia).
    assert (i (S axis) * l <= (n - 1) * l) by (apply Z.mul_le_mono_nonneg_r; lia).
    assert (0 <= i axis * s) by (apply Z.mul_nonneg_nonneg; lia).
    assert (0 <= i (S axis) * l) by (apply Z.mul_nonneg_nonneg; lia). lia.
  - pose proof (W (S k)) as H. cbn [dim window] in H.
    rewrite (proj2 (Nat.ltb_ge (S k) axis)), (proj2 (Nat.eqb_neq (S k) axis)) in H by lia.
    rewrite (proj2 (Nat.eqb_neq (S k) (S axis))) in H by lia. exact H.
Qed.
Lemma pad_reads rank x p : pads_below rank p -> reads_or_zero x (pad 0 rank x p).
Proof.
  intros L i W. simpl. destruct (inside rank (dim x) (fun k => i k - lo p k)) eqn:E; [left|now right].
  rewrite inside_iff in E. eexists. split; [|reflexivity]. intro k. destruct (Nat.lt_ge_cases k rank) as [K|K];
    [now apply E|].
  specialize (W k). specialize (L k K). simpl in W. lia.
Qed.
Lemma gather_reads x rank t : reads_or_zero x (gather x rank t).
Proof.
  intros i W. simpl. set (v := at_ t _). destruct (Z.leb_spec 0 v), (Z.ltb_spec v (dim x O)); simpl;
    try (now right). left.
  eexists. split; [|reflexivity]. intros [|k]; [lia|]. specialize (W (rank + k)%nat). simpl in W.
  destruct (Nat.ltb_spec (rank + k) rank); [lia|]. now replace (rank + k - rank)%nat with k in W by lia.
Qed.

Lemma count_positive n d : (forall k, 0 <= d k) -> 0 <= count n d.
Proof. intro H. induction n as [|n IH]; simpl; [lia|]. specialize (H n). nia. Qed.
Lemma flat_inside n d i : within d i -> 0 <= flat_at n d i < count n d.
Proof. intro W. induction n as [|n IH]; simpl; [lia|]. specialize (W n). nia. Qed.
Lemma index_inside n d v : (forall k, 0 <= d k) -> 0 <= v < count n d -> forall k, (k < n)%nat ->
  0 <= index_at n d v k < d k.
Proof.
  intro D. revert v. induction n as [|n IH]; intros v V k K; [lia|]. simpl in *. pose proof (D n).
  pose proof (count_positive n d D).
  assert (0 < d n) by nia. destruct (Nat.eqb_spec k n) as [-> |N]; [now apply Z.mod_pos_bound|]. apply IH; [|lia].
  split; [now apply Z.div_pos|]. apply Z.div_lt_upper_bound; lia.
Qed.
Lemma index_beyond n d v k : (n <= k)%nat -> index_at n d v k = 0.
Proof.
  revert v. induction n as [|n IH]; intros v K; simpl; [reflexivity|]. destruct (Nat.eqb_spec k n); [lia|].
  apply IH. lia.
Qed.
Lemma reshape_reads n x m d : same_count n (dim x) m d -> reads x (reshaped n x m d).
Proof.
  intros (D & E & C) i W. eexists. split; [|reflexivity]. intro k. destruct (Nat.lt_ge_cases k n) as [K|K].
  - apply index_inside; [intro; apply D| |exact K]. rewrite C. now apply flat_inside.
  - rewrite index_beyond by assumption. destruct (D k) as [_ H]. rewrite H by assumption. lia.
Qed.

Lemma in_turns v n : In v (turns n) <-> 0 <= v < n.
Proof.
  unfold turns. rewrite in_map_iff. split.
  - intros (k & <- & K). apply in_seq in K. lia.
  - intro K. exists (Z.to_nat v). rewrite in_seq. lia.
Qed.
Lemma along_inside n d a i j :
  (forall k, 0 <= i k < (if has a k then if (k <? n)%nat then 1 else d k else d k)) ->
    In j (along n d a i) -> within d j.
Proof.
  revert i. induction n as [|n IH]; intros i W I; simpl in I.
  - destruct I as [<-|[]]. intro k. specialize (W k). simpl in W. now destruct (has a k).
  - destruct (has a n) eqn:H.
    + apply in_flat_map in I. destruct I as (v & V & I). apply in_turns in V. apply (IH (put i n v)); [|exact I].
      intro k. specialize (W k). unfold put. destruct (Nat.eqb_spec k n) as [-> |N].
      * rewrite H. now rewrite Nat.ltb_irrefl.
      * destruct (has a k); [|exact W]. destruct (Nat.ltb_spec k (S n)), (Nat.ltb_spec k n); lia || exact W.
    + apply (IH i); [|exact I]. intro k. specialize (W k). destruct (has a k) eqn:K; [|exact W].
      destruct (Nat.ltb_spec k (S n)), (Nat.ltb_spec k n); try lia; try exact W.
      replace k with n in K by lia. congruence.
Qed.
Lemma along_some n d a i : (forall k, has a k = true -> 0 < d k) -> along n d a i <> [].
Proof.
  intro D. revert i. induction n as [|n IH]; intro i; simpl; [discriminate|]. destruct (has a n) eqn:H; [|apply IH].
  specialize (D n H). destruct (turns (d n)) as [|v l] eqn:T.
  - assert (In 0 (turns (d n))) as I by (apply in_turns; lia). rewrite T in I. destruct I.
  - simpl. intro E. apply app_eq_nil in E. now apply (IH (put i n v)).
Qed.
Lemma fold_chooses (best : Z -> Z -> Z) l v :
  (forall x y, best x y = x \/ best x y = y) -> fold_left best l v = v \/ In (fold_left best l v) l.
Proof.
  intro B. revert v. induction l as [|a l IH]; intro v; simpl; [now left|].
  destruct (IH (best v a)) as [-> |I]; [|now right; right]. destruct (B v a) as [-> | ->]; [now left|right; now left].
Qed.
(* One of the elements, or the value that it starts with if there are none. *)
Lemma chosen_reads best init lo hi rank x a :
  chooses best init lo hi -> axes_below rank a -> bounded lo hi x -> forall i, within
    (dim (chosen best init rank x a)) i ->
  (exists j, within (dim x) j /\ at_ (chosen best init rank x a) i = at_ x j) \/
  (at_ (chosen best init rank x a) i = init /\ ~ (forall k, has a k = true -> 0 < dim x k)).
Proof.
  intros (B & C & U) A [_ X] i W. simpl in *.
  assert (forall j, In j (along rank (dim x) a i) -> within (dim x) j) as I.
  { intros j. apply along_inside. intro k. specialize (W k). cbn beta in W. destruct (has a k) eqn:H; [|exact W].
    specialize (A k H).
    now destruct (Nat.ltb_spec k rank); [|lia]. }
  destruct (along rank (dim x) a i) as [|j l] eqn:E.
  - right. split; [reflexivity|]. intro D. now apply (along_some rank (dim x) a i D).
  - left. simpl. rewrite U by (apply X, I; now left).
    destruct (fold_chooses best (map (at_ x) l) (at_ x j) C) as [-> |F].
    + exists j. split; [apply I; now left|reflexivity].
    + apply in_map_iff in F. destruct F as (k & <- & K). exists k. split; [apply I; now right|reflexivity].
Qed.

(* ---- the rows' theorems ------------------------------------------------------------------------------------------ *)

(* These are the truth value, x, y and z of the row. *)
Ltac element p x y z :=
  exists p, x, y, z; unfold between, choose, below, least, most, plus, minus in *; cbv beta iota; repeat split;
  repeat match goal with |- context [?a <? ?b] => destruct (Z.ltb_spec a b) end; try reflexivity; lia.
Ltac hands_on R := match goal with W : within _ _, A : bounded _ _ ?x |- _ =>
  destruct (R _ W) as (j & J & ->); destruct A as [A B]; specialize (B j J); element true (at_ x j) 0 0 end.
Ltac hands_on_or_zero R := match goal with W : within _ _, A : bounded ?lo _ ?x |- _ =>
  destruct A as [A B]; destruct (R _ W) as [(j & J & ->) | ->];
  [specialize (B j J); element true (at_ x j) 0 0 | element false lo 0 0] end.
Ltac assigns := match goal with W : within _ ?i, A : bounded ?lo _ ?x, D : bounded _ _ ?y |- context [assign ?x ?y] =>
  destruct A as [LA _], D as [LD I]; specialize (I i W); unfold assign; element true lo (at_ y i) 0 end.
Ltac counts := match goal with W : within _ ?i, A : between _ _ ?n |- _ =>
  specialize (W O); cbn [dim at_ iota range] in *; element true n (i O) 0 end.
Ltac picks := match goal with T : truth ?p, X : same_dims ?p ?x, Y : same_dims ?p ?y, A : bounded _ _ ?p, B :
  bounded _ _ ?x, C : bounded _ _ ?y,
  W : within _ ?i |- _ =>
    assert (within (dim x) i) as U by (intro k; rewrite <- X; apply W);
      assert (within (dim y) i) as V by (intro k; rewrite <- Y; apply W);
    destruct A as [_ A], B as [_ B], C as [_ C]; specialize (A i W); specialize (B i U); specialize (C i V);
      specialize (T i);
    cbn [at_ where_]; destruct (Z.eqb_spec (at_ p i) 0); element true (at_ p i) (at_ x i) (at_ y i) end.
Ltac chooses_one := match goal with
  U : chooses ?best ?init ?l ?h, S : axes_below ?rank ?s, D : bounded ?l ?h ?x, L : some_along ?some ?x ?s, A :
    bounded ?lo _ ?x, W : within _ ?i |- _ =>
    lazymatch lo with l => fail | _ => idtac end;
    destruct (chosen_reads best init l h rank x s U S D i W) as [(j & J & ->) | (-> & N)];
    destruct A as [A B], D as [D E], U as (U & _);
    [specialize (B j J); specialize (E j J); destruct (Z.lt_ge_cases 0 some);
      [element true (at_ x j) init 0|element true (at_ x j) (at_ x j) 0]
    |assert (~ 0 < some) by (intro; now apply N, L); element true lo init 0] end.

(* ---- drawn tensors ----------------------------------------------------------------------------------------------- *)

Definition sizes (l : list Z) : index := fun k => nth k l 1.
Definition numbers (l : list Z) : index := fun k => nth k l 0.
Definition from_list (d v : list Z) : tensor :=
  Tensor _ (sizes d) (fun i => let at' := flat_at (length d) (sizes d) i in if at' <? 0 then -77777
    else nth (Z.to_nat at') v (-77777)).
Definition shown (rank : nat) (x : tensor) : list Z * list Z :=
  (map (dim x) (seq 0 rank), map (fun v => at_ x (index_at rank (dim x) v)) (turns (count rank (dim x)))).
