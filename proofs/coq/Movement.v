(* Movement: what the whole-tensor ops of the rule tables read, for every rank.

   A tensor is its sizes and its elements by index; axes at and beyond its rank have size 1.  A row says that both
   sides have the same element at every index inside the left side's sizes; that its sizes are kept is checked by the
   engine each time that a row is applied.  What the shape rules (src/ir/shape.c) demand of arguments stands in
   `legal`. *)
From Coq Require Export ZArith Lia Psatz Bool List FunctionalExtensionality.
Open Scope Z_scope.

Section Movement.
Variable V : Type.
Variable zero : V.
Variable rank : nat.

Definition index := nat -> Z.
Record tensor := Tensor { dim : index; at_ : index -> V }.
Definition within (d i : index) := forall k, 0 <= i k < d k.
Definition same (x y : tensor) := forall i, within (dim x) i -> at_ x i = at_ y i.
Definition splat (c : V) := Tensor (fun _ => 1) (fun _ => c).

Record axes := Axes { has : nat -> bool }.
Record perm := Perm { to : nat -> nat; from : nat -> nat; from_to : forall k, from (to k) = k;
  to_from : forall k, to (from k) = k }.
Record pads := Pads { lo : index; hi : index }.
Record part := Part { begin : index; size : index; step : index }.

Definition flip (x : tensor) (a : axes) :=
  Tensor (dim x) (fun i => at_ x (fun k => if has a k then dim x k - 1 - i k else i k)).
(* out axis k is in axis p k *)
Definition permute (x : tensor) (p : perm) := Tensor (fun k => dim x (to p k)) (fun i => at_ x (fun k => i (from p k))).
Definition shrink (x : tensor) (s : part) := Tensor (size s) (fun i => at_ x (fun k => begin s k + i k * step s k)).
Definition expand (x : tensor) (d : index) := Tensor d (fun i => at_ x (fun k => if dim x k =? 1 then 0 else i k)).
Fixpoint inside (n : nat) (d i : index) : bool :=
  match n with O => true | S m => (0 <=? i m) && (i m <? d m) && inside m d i end.
Definition pad (x : tensor) (p : pads) :=
  Tensor (fun k => lo p k + dim x k + hi p k)
         (fun i => if inside rank (dim x) (fun k => i k - lo p k) then at_ x (fun k => i k - lo p k) else zero).
Definition contig (x : tensor) := x.
Definition detach (x : tensor) := x.
(* Over no axes every reduction is its source, whatever it does with one axis. *)
Definition reduce (one : tensor -> nat -> tensor) (x : tensor) (a : axes) :=
  fold_left one (filter (has a) (seq 0 rank)) x.

(* A reshape keeps the elements in row-major order: that is what it is. *)
Record flat := Flat { dims : list Z; nth_element : Z -> V }.
Definition reshape (x : flat) (d : list Z) := Flat d (nth_element x).
Definition flat_splat (c : V) := Flat nil (fun _ => c).
Definition flat_same (x y : flat) := forall n, nth_element x n = nth_element y n.

Definition compose (p q : perm) : perm.
Proof.
  refine (Perm (fun k => to p (to q k)) (fun k => from q (from p k)) _ _); intro k.
  - rewrite from_to. apply from_to.
  - rewrite to_from. apply to_from.
Defined.
Definition symdiff (a b : axes) := Axes (fun k => xorb (has a k) (has b k)).
Definition padsum (p q : pads) := Pads (fun k => lo p k + lo q k) (fun k => hi p k + hi q k).
Definition shrinkmul (s t : part) :=
  Part (fun k => begin s k + begin t k * step s k) (size t) (fun k => step s k * step t k).

Definition identity (p : perm) := forall k, to p k = k.
Definition zeros (p : pads) := forall k, lo p k = 0 /\ hi p k = 0.
Definition empty (a : axes) := forall k, has a k = false.
Definition undoes (s : part) (p : pads) (x : tensor) := forall k, begin s k = lo p k /\ size s k =
  dim x k /\ step s k = 1.

Definition legal_pads (p : pads) := forall k, 0 <= lo p k /\ 0 <= hi p k.
Definition legal_part (s : part) (d : index) :=
  forall k, 0 <= begin s k /\ 1 <= step s k /\ (0 < size s k -> begin s k + (size s k - 1) * step s k < d k).
Definition legal_expand (x e : index) := forall k, x k = 1 \/ e k = x k.

Lemma inside_within n d i : within d i -> inside n d i = true.
Proof. intro H. induction n as [|m IH]; simpl; [reflexivity|]. specialize (H m). rewrite IH. lia. Qed.
Lemma inside_iff n d i : inside n d i = true <-> forall k, (k < n)%nat -> 0 <= i k < d k.
Proof.
  induction n as [|m IH]; simpl; [split; [lia|reflexivity]|]. rewrite !andb_true_iff, IH. split.
  - intros [[A B] C] k K. destruct (Nat.eq_dec k m) as [->|]; [lia|apply C; lia].
  - intro H. pose proof (H m ltac:(lia)). repeat split; try lia; intros; apply H; lia.
Qed.
Lemma inside_pad n d p i : legal_pads p -> inside n d (fun k => i k - lo p k) = true ->
  inside n (fun k => lo p k + d k + hi p k) i = true.
Proof. intros L H. rewrite inside_iff in *. intros k K. specialize (H k K). specialize (L k). simpl in *. lia. Qed.
Lemma no_axes a l : empty a -> filter (has a) l = nil.
Proof. intro E. induction l as [|k l IH]; simpl; [reflexivity|]. rewrite (E k). exact IH. Qed.
Lemma pad_twice x p q i : legal_pads p -> at_ (pad (pad x p) q) i = at_ (pad x (padsum p q)) i.
Proof.
  intro L. simpl. replace (fun k => i k - (lo p k + lo q k)) with (fun k => i k - lo q k - lo p k) by
    (apply functional_extensionality; intro; lia).
  destruct (inside rank (dim x) (fun k => i k - lo q k - lo p k)) eqn:E.
  - rewrite (inside_pad rank (dim x) p (fun k => i k - lo q k) L E). reflexivity.
  - destruct (inside rank _ (fun k => i k - lo q k)); reflexivity.
Qed.
End Movement.

Arguments dim {V}. Arguments at_ {V}. Arguments splat {V}. Arguments flip {V}. Arguments permute {V}.
Arguments shrink {V}.
Arguments expand {V}. Arguments contig {V}. Arguments detach {V}. Arguments same {V}. Arguments reshape {V}.
Arguments flat_splat {V}.
Arguments flat_same {V}. Arguments undoes {V}. Arguments pad {V}. Arguments reduce {V}. Arguments nth_element {V}.
Arguments pad_twice {V}.

Ltac pointwise := apply functional_extensionality; intro; simpl in *.
Ltac movement :=
  intros; unfold same, within, flat_same, contig, detach, reduce, zeros, empty, undoes, legal_part, legal_pads,
    legal_expand in *; try intros i W; simpl in *;
  try reflexivity; try (f_equal; pointwise);
  repeat match goal with k : nat, H : forall _ : nat, _ |- _ => specialize (H k) end; try solve [lia | nia];
  repeat match goal with H : _ /\ _ |- _ => destruct H end;
  repeat match goal with
  | |- context [xorb ?a ?b] => destruct a, b; simpl
  | |- context [if ?a =? ?b then _ else _] => destruct (Z.eqb_spec a b)
  | H : ?b = false |- context [if ?b then _ else _] => rewrite H
  end; try solve [lia | nia | reflexivity].
