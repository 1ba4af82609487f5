(* Machine integers of every width: residues modulo M.  Signed or not, equal residues are equal values. *)
From Coq Require Export ZArith Lia.
Open Scope Z_scope.

Section Modular.
Variable M : Z.
Definition add (x y : Z) := (x + y) mod M.
Definition mul (x y : Z) := (x * y) mod M.
Definition neg (x : Z) := (- x) mod M.
Definition num (x : Z) := x mod M.
Definition is_value (x : Z) := x mod M = x.
Lemma opp_mod x : (- (x mod M)) mod M = (- x) mod M.
Proof. rewrite <- (Z.sub_0_l (x mod M)), <- (Z.sub_0_l x). apply Zminus_mod_idemp_r. Qed.
End Modular.

Ltac modular := unfold is_value, add, mul, neg, num; intros;
  repeat first [rewrite Zplus_mod_idemp_l | rewrite Zplus_mod_idemp_r | rewrite Zmult_mod_idemp_l | rewrite
    Zmult_mod_idemp_r | rewrite opp_mod
               | rewrite Zmod_mod];
  first [ reflexivity
        | f_equal; ring
        | match goal with H : ?x mod ?M = ?x |- _ = ?x => etransitivity; [|exact H]; f_equal; ring end ].
