(* The reverse pass over tensors: for any straight-line program whose ops have correct slopes and adjoints, what the
   pass hands down is the gradient.  A tensor is its elements by number; `size` says how many each node has.  The pass
   itself is over any numbers, so the very function that is proved for the reals is run on integers, beside the pass
   in C (test/prove/test_reverse.c). *)
From Coq Require Import Reals Lra Lia List Arith ZArith.
From Coquelicot Require Import Coquelicot.
From Tenet Require Import Ops.
Import ListNotations.

(* ---- the pass ---------------------------------------------------------------------------------------------------- *)

Section Pass.
Context {T : Type} (zero : T) (add mul : T -> T -> T).
Definition vec := nat -> T.
Definition env := nat -> vec.
(* sources by number; what flows back to source k of what arrives *)
Record op := Op { value : (nat -> vec) -> vec; backward : (nat -> vec) -> vec -> nat -> vec }.
Record ins := Ins { does : op; args : list nat }.

Definition memo n (v : vec) : vec := let l := map v (seq 0 n) in fun i => nth i l zero.
Definition upd {A} (v : nat -> A) k r : nat -> A := fun i => if Nat.eqb i k then r else v i.
Definition sources (c : ins) (v : env) k := v (nth k (args c) 0%nat).

Context (size : nat -> nat).
Definition accumulate (g : env) i (part : vec) : env := upd g i (memo (size i) (fun e => add (g i e) (part e))).
Fixpoint hand_down (parts : nat -> vec) k ids (g : env) : env :=
  match ids with [] => g | i :: ids => hand_down parts (S k) ids (accumulate g i (parts k)) end.
(* node k is the first that p computes *)
Fixpoint run p k (v : env) : env :=
  match p with [] => v | c :: p => run p (S k) (upd v k (memo (size k) (value (does c) (sources c v)))) end.
Fixpoint back p k (v g : env) : env :=
  match p with [] => g | c :: p =>
    let g' := back p (S k) (upd v k (memo (size k) (value (does c) (sources c v)))) g in
    hand_down (backward (does c) (sources c v) (g' k)) 0 (args c) g' end.

(* ops, over any numbers *)
Fixpoint addup n (f : nat -> T) : T := match n with O => zero | S k => add (addup k f) (f k) end.
Definition elementwise (f : (nat -> T) -> T) (rows : nat -> (nat -> T) -> T -> T) :=
  Op (fun x i => f (fun k => x k i)) (fun x s k i => rows k (fun q => x q i) (s i)).
(* n x m entries; a movement or a sum has entries 0 and 1 *)
Definition linear_op n m (a : nat -> nat -> T) :=
  Op (fun x i => addup m (fun j => mul (a i j) (x 0%nat j))) (fun x s _ j => addup n (fun i => mul (a i j) (s i))).
(* n results, each the sum of l products of an element of source 0 (m of them) and one of source 1 (m') *)
Definition contract_op n l (p q : nat -> nat -> nat) :=
  Op (fun x i => addup l (fun k => mul (x 0%nat (p i k)) (x 1%nat (q i k))))
     (fun x s k j => addup n (fun i => addup l (fun e =>
        if Nat.eqb k 0 then (if Nat.eqb (p i e) j then mul (x 1%nat (q i e)) (s i) else zero)
        else if Nat.eqb (q i e) j then mul (x 0%nat (p i e)) (s i) else zero))).
End Pass.
Arguments Op {T}. Arguments Ins {T}. Arguments value {T}. Arguments backward {T}. Arguments does {T}.
Arguments args {T}.

(* ---- sums -------------------------------------------------------------------------------------------------------- *)

Open Scope R_scope.
Definition sum := addup 0 Rplus.
Lemma sum_ext n f g : (forall i, (i < n)%nat -> f i = g i) -> sum n f = sum n g.
Proof. unfold sum. induction n; intros H; simpl; [reflexivity|]. rewrite (H n), IHn by auto with arith.
  reflexivity. Qed.
Lemma sum_0 n : sum n (fun _ => 0) = 0.
Proof. unfold sum. induction n; simpl; [reflexivity|]. rewrite IHn. ring. Qed.
Lemma sum_plus n f g : sum n (fun i => f i + g i) = sum n f + sum n g.
Proof. unfold sum. induction n; simpl; [ring|]. rewrite IHn. ring. Qed.
Lemma sum_scal n c f : c * sum n f = sum n (fun i => c * f i).
Proof. unfold sum. induction n; simpl; [ring|]. rewrite <- IHn. ring. Qed.
Lemma sum_swap n m f : sum n (fun i => sum m (fun j => f i j)) = sum m (fun j => sum n (fun i => f i j)).
Proof. induction n as [|n IH]; [symmetry; apply sum_0|]. change
  (sum n (fun i => sum m (fun j => f i j)) + sum m (fun j => f n j) = sum m (fun j => sum n (fun i => f i j) + f n j)).
  now rewrite IH, sum_plus. Qed.
Lemma sum_pick n k f : (k < n)%nat -> sum n (fun j => if Nat.eqb j k then f j else 0) = f k.
Proof.
  induction n as [|n IH]; intros H; [lia|]. change
    (sum n (fun j => if Nat.eqb j k then f j else 0) + (if Nat.eqb n k then f n else 0) = f k).
  destruct (Nat.eqb_spec n k) as [->|N]; [|rewrite IH by lia; ring].
  rewrite (sum_ext _ _ (fun _ => 0)), sum_0; [ring|]. intros i I. destruct (Nat.eqb_spec i k); [lia | reflexivity].
Qed.
Lemma sum_last n f : sum (S n) f = sum n f + f n.
Proof. reflexivity. Qed.
Lemma sum_first n f : sum (S n) f = f 0%nat + sum n (fun j => f (S j)).
Proof. unfold sum. induction n as [|n IH]; simpl in *; [ring|]. rewrite IH. ring. Qed.
Lemma sum_2 f : sum 2 f = f 0%nat + f 1%nat.
Proof. unfold sum; simpl. ring. Qed.
Lemma is_derive_sum n (f : nat -> R -> R) s d : (forall i, (i < n)%nat -> is_derive (f i) s (d i)) ->
  is_derive (fun u => sum n (fun i => f i u)) s (sum n d).
Proof.
  induction n as [|n IH]; intros H.
  - change (is_derive (fun _ : R => 0) s 0). apply (is_derive_const (K := R_AbsRing) (V := R_NormedModule)).
  - change (is_derive (fun u => sum n (fun i => f i u) + f n u) s (sum n d + d n)).
    apply (is_derive_plus (fun u => sum n (fun i => f i u)) (f n)); [apply IH; intros; apply H; lia | apply H; lia].
Qed.
Lemma memo_is n (v : nat -> R) i : (i < n)%nat -> memo 0 n v i = v i.
Proof. intros H. unfold memo. rewrite nth_indep with (d' := v 0%nat) by now rewrite map_length, seq_length.
  rewrite map_nth, seq_nth by assumption. reflexivity. Qed.

(* ---- what an op must satisfy ------------------------------------------------------------------------------------- *)

Definition tensors := nat -> nat -> R. (* by source or node, then by element *)
Definition dotv n (u v : nat -> R) := sum n (fun i => u i * v i).

(* forth is the derivative along any curve of the sources, where the op has one; backward is its transpose *)
Record correct (o : op (T := R)) (arity n : nat) (m : nat -> nat) (dom : tensors -> Prop)
  (forth : tensors -> tensors -> nat -> R) := {
  slopes_ok : forall (X : R -> tensors) t s, dom (X s) ->
    (forall k j, (k < arity)%nat -> (j < m k)%nat -> is_derive (fun u => X u k j) s (t k j)) ->
    forall i, (i < n)%nat -> is_derive (fun u => value o (X u) i) s (forth (X s) t i);
  adjoint_ok : forall x t g, dom x -> dotv n g (forth x t) = sum arity (fun k => dotv (m k) (backward o x g k) (t k))
}.

Section Program.
Context (size : nat -> nat) (forth_of : op (T := R) -> tensors -> tensors -> nat -> R)
  (dom_of : op (T := R) -> tensors -> Prop).
Notation prog := (list (ins (T := R))).
Definition well_made (c : ins (T := R)) k := (forall i, (i < length (args c))%nat -> (nth i (args c) 0 < k)%nat) /\
  correct (does c) (length (args c)) (size k) (fun i => size (nth i (args c) 0%nat)) (dom_of (does c))
    (forth_of (does c)).
Fixpoint well p k : Prop := match p with [] => True | c :: p => well_made c k /\ well p (S k) end.
Definition step c k (v : tensors) : tensors := upd v k (memo 0 (size k) (value (does c) (sources c v))).
Fixpoint in_domain (p : prog) k v : Prop :=
  match p with [] => True | c :: p => dom_of (does c) (sources c v) /\ in_domain p (S k) (step c k v) end.
Fixpoint jvp (p : prog) k v t : tensors :=
  match p with [] => t | c :: p => jvp p (S k) (step c k v)
    (upd t k (forth_of (does c) (sources c v) (sources c t))) end.
Definition inner k (g t : tensors) := sum k (fun i => dotv (size i) (g i) (t i)).

Lemma inner_accumulate k g i part t : (i < k)%nat -> inner k (accumulate 0 Rplus size g i part) t =
  inner k g t + dotv (size i) part (t i).
Proof.
  intros H. unfold inner. rewrite (sum_ext k _ (fun j => dotv (size j) (g j) (t j) +
    (if Nat.eqb j i then dotv (size j) part (t j) else 0))).
  - rewrite sum_plus. f_equal. now rewrite (sum_pick k i (fun j => dotv (size j) part (t j))).
  - intros j _. unfold accumulate, upd. destruct (Nat.eqb_spec j i) as [->|N]; [|ring]. unfold dotv.
    rewrite <- sum_plus. apply sum_ext. intros e E. rewrite memo_is by assumption. ring.
Qed.
Lemma inner_hand_down k parts ids : forall a g t, (forall i, (i < length ids)%nat -> (nth i ids 0 < k)%nat) ->
  inner k (hand_down 0 Rplus size parts a ids g) t =
  inner k g t + sum (length ids) (fun i => dotv (size (nth i ids 0%nat)) (parts (a + i)%nat) (t (nth i ids 0%nat))).
Proof.
  induction ids as [|i ids IH]; intros a g t H; [simpl; unfold sum; simpl; ring|].
  cbn [hand_down length].
  rewrite IH by (intros j J; apply (H (S j)); simpl; lia). rewrite inner_accumulate by (apply (H 0%nat); simpl; lia).
  rewrite sum_first. cbn [nth]. rewrite Nat.add_0_r, Rplus_assoc. do 2 f_equal. apply sum_ext. intros j _.
  now rewrite Nat.add_succ_comm.
Qed.

Theorem transpose p : forall k v t g, well p k -> in_domain p k v ->
  inner k (back 0 Rplus size p k v g) t = inner (k + length p) g (jvp p k v t).
Proof.
  induction p as [|c p IH]; intros k v t g W D; simpl; [now rewrite Nat.add_0_r|].
  destruct W as [[A C] W], D as [D E]. fold (step c k v). rewrite inner_hand_down by assumption.
  replace (k + S (length p))%nat with (S k + length p)%nat by lia. rewrite <- IH by assumption.
  set (g' := back 0 Rplus size p (S k) (step c k v) g).
  set (forth := forth_of (does c) (sources c v) (sources c t)).
  replace (inner (S k) g' (upd t k forth)) with (inner k g' t + dotv (size k) (g' k) forth).
  - f_equal. unfold forth. rewrite (adjoint_ok _ _ _ _ _ _ C) by assumption. reflexivity.
  - unfold inner. rewrite sum_last. f_equal; [apply sum_ext; intros i I; unfold upd; destruct (Nat.eqb_spec i k);
    [lia | reflexivity]|].
    unfold upd. now rewrite Nat.eqb_refl.
Qed.

Theorem forward p : forall k (V : R -> tensors) t s, well p k -> in_domain p k (V s) ->
  (forall i j, (i < k)%nat -> (j < size i)%nat -> is_derive (fun u => V u i j) s (t i j)) ->
  forall i j, (i < k + length p)%nat -> (j < size i)%nat -> is_derive (fun u => run 0 size p k (V u) i j) s
    (jvp p k (V s) t i j).
Proof.
  induction p as [|c p IH]; intros k V t s W D H i j I J; simpl in *; [apply H; lia|].
  destruct W as [[A C] W], D as [D E].
  apply (IH (S k) (fun u => step c k (V u)) (upd t k (forth_of (does c) (sources c (V s)) (sources c t))));
    trivial; [|lia].
  intros a b Ha Hb. unfold step, upd. destruct (Nat.eqb_spec a k) as [->|N]; [|apply H; lia].
  apply (is_derive_ext (fun u => value (does c) (sources c (V u)) b)); [intro u; symmetry; now apply memo_is|].
  apply (slopes_ok _ _ _ _ _ _ C (fun u => sources c (V u)) (sources c t) s D); [|assumption].
  intros q e Q Eq. apply H; [now apply A | exact Eq].
Qed.

Definition seed out (u : nat -> R) : tensors := fun i => if Nat.eqb i out then u else fun _ => 0.
Lemma inner_seed n out u t : (out < n)%nat -> inner n (seed out u) t = dotv (size out) u (t out).
Proof.
  intros H. unfold inner. rewrite (sum_ext n _ (fun i => if Nat.eqb i out then dotv (size i) u (t i) else 0)).
  - now rewrite (sum_pick n out (fun i => dotv (size i) u (t i))).
  - intros i _. unfold seed. destruct (Nat.eqb i out); [reflexivity|]. unfold dotv.
    rewrite (sum_ext _ _ (fun _ => 0)) by (intros; ring). apply sum_0.
Qed.

(* Along any curve of the inputs, <u, out> changes by the inner product of the pass's gradients with the curve's
   slope. *)
Theorem reverse_along_curves p k (V : R -> tensors) t s out u : well p k -> in_domain p k (V s) ->
  (out < k + length p)%nat ->
  (forall i j, (i < k)%nat -> (j < size i)%nat -> is_derive (fun w => V w i j) s (t i j)) ->
  is_derive (fun w => dotv (size out) u (run 0 size p k (V w) out)) s
    (inner k (back 0 Rplus size p k (V s) (seed out u)) t).
Proof.
  intros W D O H. rewrite transpose, inner_seed by assumption.
  apply (is_derive_sum (size out) (fun i w => u i * run 0 size p k (V w) out i)). intros i I.
  apply (is_derive_scal (fun w => run 0 size p k (V w) out i)). now apply forward.
Qed.

(* So each element of each input gets the partial derivative of <u, out> by it. *)
Theorem reverse_mode_correct p k (x : tensors) i e out u : well p k -> in_domain p k x -> (i < k)%nat ->
  (e < size i)%nat -> (out < k + length p)%nat ->
  is_derive (fun w => dotv (size out) u (run 0 size p k (upd x i (upd (x i) e w)) out)) (x i e)
    (back 0 Rplus size p k x (seed out u) i e).
Proof.
  intros W D I E O.
  assert (X : upd x i (upd (x i) e (x i e)) = x).
  { apply FunctionalExtensionality.functional_extensionality. intro a.
    apply FunctionalExtensionality.functional_extensionality. intro b.
    unfold upd. destruct (Nat.eqb_spec a i) as [->|]; [|reflexivity]. destruct (Nat.eqb_spec b e); subst; reflexivity. }
  set (unit_ := fun a b => if Nat.eqb a i then if Nat.eqb b e then 1 else 0 else 0).
  replace (back 0 Rplus size p k x (seed out u) i e)
    with (inner k (back 0 Rplus size p k (upd x i (upd (x i) e (x i e))) (seed out u)) unit_).
  - apply (reverse_along_curves p k (fun w => upd x i (upd (x i) e w))); trivial; [now rewrite X|].
    intros a b A B. unfold upd, unit_. destruct (Nat.eqb_spec a i) as [->|]; [destruct (Nat.eqb_spec b e) as [->|]|];
    [apply (is_derive_id (K := R_AbsRing)) | apply (is_derive_const (K := R_AbsRing) (V := R_NormedModule)) ..].
  - rewrite X. set (g := back 0 Rplus size p k x (seed out u)). unfold inner.
    rewrite (sum_ext k _ (fun a => if Nat.eqb a i then g a e else 0)).
    + now rewrite (sum_pick k i (fun a => g a e)).
    + intros a _. unfold unit_. destruct (Nat.eqb_spec a i) as [->|]; unfold dotv.
      * rewrite (sum_ext _ _ (fun b => if Nat.eqb b e then g i b else 0)) by (intros b _; destruct (Nat.eqb b e); ring).
        now rewrite (sum_pick (size i) e (fun b => g i b)).
      * rewrite (sum_ext _ _ (fun _ => 0)) by (intros; ring). apply sum_0.
Qed.
End Program.

(* ---- the ops that satisfy it ------------------------------------------------------------------------------------- *)

(* Elementwise: from a scalar op's joint slopes, which is what the rows' theorems are about. *)
Definition joint_slopes (f : (nat -> R) -> R) (arity : nat) (dom : (nat -> R) -> Prop) (d : nat -> (nat -> R) -> R) :=
  forall (X : R -> nat -> R) t s, dom (X s) -> (forall k, (k < arity)%nat -> is_derive (fun u => X u k) s (t k)) ->
  is_derive (fun u => f (X u)) s (sum arity (fun k => d k (X s) * t k)).
Lemma slopes_unary (f : R -> R) (dom : R -> Prop) d : (forall x, dom x -> is_derive f x (d x)) ->
  joint_slopes (fun x => f (x 0%nat)) 1 (fun x => dom (x 0%nat)) (fun _ x => d (x 0%nat)).
Proof.
  intros H X t s D K. unfold sum; simpl. rewrite Rplus_0_l, Rmult_comm.
  apply (is_derive_comp f (fun u => X u 0%nat)); [now apply H | apply K; lia].
Qed.
Lemma slopes_binary (f : R -> R -> R) (dom : R -> R -> Prop) d e :
  (forall x y, dom x y -> diff2 f x y (d x y) (e x y)) ->
  joint_slopes (fun x => f (x 0%nat) (x 1%nat)) 2 (fun x => dom (x 0%nat) (x 1%nat))
    (fun k x => if Nat.eqb k 0 then d (x 0%nat) (x 1%nat) else e (x 0%nat) (x 1%nat)).
Proof.
  intros H X t s D K. unfold sum; simpl. rewrite Rplus_0_l.
  apply (diff2_curve f (X s 0%nat) (X s 1%nat)); [now apply H | reflexivity | reflexivity | apply K;
    lia | apply K; lia].
Qed.
Lemma slopes_fma : joint_slopes (fun x => o_fma (x 0%nat) (x 1%nat) (x 2%nat)) 3 (fun _ => True)
  (fun k x => match k with O => x 1%nat | 1%nat => x 0%nat | _ => 1 end).
Proof.
  intros X t s _ K. unfold sum; simpl. rewrite Rplus_0_l, Rmult_1_l. unfold o_fma.
  replace (X s 1%nat * t 0%nat + X s 0%nat * t 1%nat) with (t 0%nat * X s 1%nat + X s 0%nat * t 1%nat) by ring.
  apply (is_derive_plus (fun u => X u 0%nat * X u 1%nat) (fun u => X u 2%nat)); [|apply K; lia].
  apply (is_derive_mult (fun u => X u 0%nat) (fun u => X u 1%nat));
    [apply K; lia | apply K; lia | intros; apply Rmult_comm].
Qed.

Theorem elementwise_correct f arity dom d rows n :
  joint_slopes f arity dom d -> (forall k x g, (k < arity)%nat -> dom x -> rows k x g = g * d k x) ->
  correct (elementwise f rows) arity n (fun _ => n) (fun x => forall i, (i < n)%nat -> dom (fun k => x k i))
    (fun x t i => sum arity (fun k => d k (fun q => x q i) * t k i)).
Proof.
  intros S Q. split.
  - intros X t s D H i I. apply (S (fun u k => X u k i) (fun k => t k i) s (D i I)). intros k K. now apply H.
  - intros x t g D. unfold dotv. simpl.
    rewrite (sum_ext n _ (fun i => sum arity (fun k => rows k (fun q => x q i) (g i) * t k i))).
    + apply sum_swap.
    + intros i I. rewrite sum_scal. apply sum_ext. intros k K. rewrite Q by auto. ring.
Qed.

(* Movement, sums, windows: linear. *)
Theorem linear_correct n m a :
  correct (linear_op 0 Rplus Rmult n m a) 1 n (fun _ => m) (fun _ => True) (fun x t i =>
    sum m (fun j => a i j * t 0%nat j)).
Proof.
  split.
  - intros X t s _ H i I. apply (is_derive_sum m (fun j u => a i j * X u 0%nat j)). intros j J.
    apply (is_derive_scal (fun u => X u 0%nat j)). apply H; [lia | assumption].
  - intros x t g _. unfold dotv. unfold sum at 3. simpl. rewrite Rplus_0_l. fold sum.
    rewrite (sum_ext n _ (fun i => sum m (fun j => a i j * g i * t 0%nat j))) by (intros; rewrite sum_scal;
      apply sum_ext; intros; ring).
    rewrite sum_swap. apply sum_ext. intros j _. rewrite Rmult_comm, sum_scal. apply sum_ext. intros. ring.
Qed.

(* Contraction: bilinear. *)
Theorem contract_correct n l p q m m' : (forall i k, (i < n)%nat -> (k < l)%nat -> (p i k < m)%nat /\
  (q i k < m')%nat) ->
  correct (contract_op 0 Rplus Rmult n l p q) 2 n (fun k => if Nat.eqb k 0 then m else m') (fun _ => True)
    (fun x t i => sum l (fun k => x 1%nat (q i k) * t 0%nat (p i k) + x 0%nat (p i k) * t 1%nat (q i k))).
Proof.
  intros B. split.
  - intros X t s _ H i I. apply (is_derive_sum l (fun k u => X u 0%nat (p i k) * X u 1%nat (q i k))). intros k K.
    destruct (B i k I K) as [P Q]. replace (X s 1%nat (q i k) * t 0%nat (p i k)) with
      (t 0%nat (p i k) * X s 1%nat (q i k)) by ring.
    apply (is_derive_mult (fun u => X u 0%nat (p i k)) (fun u => X u 1%nat (q i k)));
    [apply H; [lia | exact P] | apply H; [lia | exact Q] | intros; apply Rmult_comm].
  - intros x t g _. rewrite sum_2. unfold dotv. cbn [contract_op backward Nat.eqb]. change (addup 0 Rplus) with sum.
    assert (G : forall M w (place : nat -> nat -> nat) (other : nat -> nat -> R),
      (forall i k, (i < n)%nat -> (k < l)%nat -> (place i k < M)%nat) ->
      sum M (fun j => sum n (fun i => sum l (fun k => if Nat.eqb (place i k) j then other i k * g i else 0)) * w j) =
      sum n (fun i => sum l (fun k => g i * (other i k * w (place i k))))).
    { intros M w place other P.
      rewrite (sum_ext M _ (fun j => sum n (fun i =>
        sum l (fun k => if Nat.eqb j (place i k) then other i k * g i * w j else 0)))).
      - rewrite sum_swap. apply sum_ext. intros i I. rewrite sum_swap. apply sum_ext. intros k K.
        rewrite (sum_pick M (place i k) (fun j => other i k * g i * w j)) by auto. ring.
      - intros j _. rewrite Rmult_comm, sum_scal. apply sum_ext. intros i _. rewrite sum_scal.
        apply sum_ext. intros k _.
        rewrite (Nat.eqb_sym j). destruct (Nat.eqb (place i k) j); ring. }
    rewrite (G m (t 0%nat) p (fun i k => x 1%nat (q i k))), (G m' (t 1%nat) q (fun i k => x 0%nat (p i k)));
      try (intros; now apply B).
    rewrite <- sum_plus. apply sum_ext. intros i _. rewrite <- sum_plus, sum_scal. apply sum_ext. intros. ring.
Qed.
