(* The normal form of index arithmetic (src/ir/index.c): sums of terms, constant times product of atoms.  Each step of
   its constructors keeps the value, over the integers, for every order of atoms and products.  What an atom is (a
   variable, a loop, a division, ...) is left open: none is made and none changed. *)
From Coq Require Import ZArith Lia List.
Import ListNotations.
Open Scope Z_scope.

Section Normal.
Variable atom : Type.
Variable value : atom -> Z.
Variable same_atom : forall x y : atom, {x = y} + {x <> y}.
Variable first_atom : atom -> atom -> bool.

Definition product := list atom.
Definition term := (Z * product)%type.
Fixpoint product_value (p : product) : Z := match p with [] => 1 | a :: p => value a * product_value p end.
Definition term_value (t : term) : Z := fst t * product_value (snd t).
Fixpoint sum_value (s : list term) : Z := match s with [] => 0 | t :: s => term_value t + sum_value s end.

(* add: two lists are merged; where the order takes two products for one, they are one, and their constants add up *)
Variable order : product -> product -> comparison.
Hypothesis order_is_one : forall p q, order p q = Eq -> p = q.
Fixpoint add (a : list term) : list term -> list term :=
  fix more (b : list term) : list term :=
    match a, b with
    | [], _ => b
    | _, [] => a
    | t :: a', u :: b' =>
        match order (snd t) (snd u) with
        | Eq => (fst t + fst u, snd t) :: add a' b'
        | Lt => t :: add a' b
        | Gt => u :: more b'
        end
    end.
Theorem add_value : forall a b, sum_value (add a b) = sum_value a + sum_value b.
Proof.
  induction a as [|t a IHa]; intro b; [destruct b; reflexivity|].
  induction b as [|u b IHb]; [simpl; lia|].
  change (add (t :: a) (u :: b)) with
    (match order (snd t) (snd u) with Eq => (fst t + fst u, snd t) :: add a b | Lt => t :: add a (u :: b) | Gt =>
      u :: add (t :: a) b end).
  destruct (order (snd t) (snd u)) eqn:E; cbn [sum_value].
  - rewrite IHa. apply order_is_one in E. unfold term_value. cbn [fst snd]. rewrite <- E. lia.
  - rewrite IHa. cbn [sum_value]. lia.
  - rewrite IHb. cbn [sum_value]. lia.
Qed.

(* what is written: terms that are not 0 *)
Definition write (s : list term) := filter (fun t => negb (fst t =? 0)) s.
Theorem write_value : forall s, sum_value (write s) = sum_value s.
Proof.
  induction s as [|t s IH]; [reflexivity|]. simpl. destruct (Z.eqb_spec (fst t) 0) as [E|E]; simpl; rewrite IH;
    [|reflexivity].
  unfold term_value. rewrite E. lia.
Qed.

(* mul by a constant; and the common factor of a sum *)
Definition scale (s : list term) (k : Z) := map (fun t : term => (fst t * k, snd t)) s.
Theorem scale_value : forall s k, sum_value (scale s k) = sum_value s * k.
Proof. intros s k. induction s as [|t s IH]; simpl; [lia|]. rewrite IH. unfold term_value. simpl. lia. Qed.
Definition factored (s : list term) (k : Z) := map (fun t : term => (fst t / k, snd t)) s.
Theorem factor_value : forall s k, k <> 0 -> Forall (fun t : term => (k | fst t)) s -> sum_value s =
  k * sum_value (factored s k).
Proof.
  intros s k K D. induction D as [|t s T D IH]; simpl; [lia|]. rewrite IH. unfold term_value. simpl.
  destruct T as [q Q]. rewrite Q, Z.div_mul by assumption. lia.
Qed.

(* mul: atoms merged, constants multiplied *)
Fixpoint join (a : product) : product -> product :=
  fix more (b : product) : product :=
    match a, b with
    | [], _ => b
    | _, [] => a
    | x :: a', y :: b' => if first_atom x y then x :: join a' b else y :: more b'
    end.
Theorem join_value : forall a b, product_value (join a b) = product_value a * product_value b.
Proof.
  induction a as [|x a IHa]; intro b; [destruct b; cbn [join product_value]; lia|].
  induction b as [|y b IHb]; [cbn [join product_value]; lia|].
  change (join (x :: a) (y :: b)) with (if first_atom x y then x :: join a (y :: b) else y :: join (x :: a) b).
  destruct (first_atom x y); cbn [product_value]; [rewrite IHa|rewrite IHb]; cbn [product_value]; lia.
Qed.
Theorem mul_value : forall k p l q, term_value (k * l, join p q) = term_value (k, p) * term_value (l, q).
Proof. intros. unfold term_value. simpl. rewrite join_value. lia. Qed.

(* idiv and mod: of a term by a term whose constant divides and whose atoms are all there; of a sum term by term *)
Fixpoint without (p d : product) : option product :=
  match p, d with
  | _, [] => Some p
  | [], _ => None
  | a :: p', b :: d' => if same_atom a b then without p' d' else option_map (cons a) (without p' d)
  end.
Lemma without_value : forall p d r, without p d = Some r -> product_value p = product_value d * product_value r.
Proof.
  induction p as [|a p IH]; intros d r E; destruct d as [|b d]; simpl in E.
  - injection E as <-. reflexivity.
  - discriminate.
  - injection E as <-. cbn [product_value]. lia.
  - destruct (same_atom a b) as [->|N]; [simpl; rewrite (IH _ _ E); ring|].
    destruct (without p (b :: d)) as [q|] eqn:W; simpl in E; [|discriminate]. injection E as <-.
    cbn [product_value]. rewrite (IH _ _ W). cbn [product_value]. ring.
Qed.
Definition divides (d t q : term) := (fst d | fst t) /\ fst q = fst t / fst d /\ without (snd t) (snd d) = Some (snd q).
Lemma divides_value : forall d t q, term_value d <> 0 -> divides d t q -> term_value t = term_value q * term_value d.
Proof.
  intros d t q N ([m M] & Q & W). apply without_value in W. unfold term_value in *. rewrite W, Q, M.
  rewrite Z.div_mul; [ring|]. intro Z0. apply N. rewrite Z0. reflexivity.
Qed.
Theorem quotient_value : forall d s q, term_value d <> 0 -> Forall2 (divides d) s q ->
  sum_value s / term_value d = sum_value q /\ sum_value s mod term_value d = 0.
Proof.
  intros d s q N F. assert (E : sum_value s = sum_value q * term_value d).
  { induction F as [|t u s q D F IH]; simpl; [lia|]. rewrite IH, (divides_value _ _ _ N D). ring. }
  rewrite E. split; [apply Z.div_mul|apply Z.mod_mul]; assumption.
Qed.
End Normal.

(* min and max: where bounds decide *)
Theorem min_value : forall x y hi lo, x <= hi -> lo <= y -> hi <= lo -> Z.min x y = x /\ Z.max x y = y.
Proof. lia. Qed.
