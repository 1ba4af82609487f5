(* Index arithmetic over Z, as src/ir/eval.h has it: floor division, x idiv 0 = 0 and x mod 0 = x, which are Coq's
   own.  Statements are printed with the ops' names; they are notations, so that Coq's automation sees through
   them. *)
From Coq Require Export ZArith Lia Psatz ZifyBool Bool.
Open Scope Z_scope.

Notation add := Z.add (only parsing).
Notation mul := Z.mul (only parsing).
Notation neg := Z.opp (only parsing).
Notation sub := Z.sub (only parsing).
Notation idiv := Z.div (only parsing).
Notation mod_ := Z.modulo (only parsing).
Notation min := Z.min (only parsing).
Notation max := Z.max (only parsing).
Notation lt := Z.ltb (only parsing).
Notation le := Z.leb (only parsing).
Notation eq_ := Z.eqb (only parsing).
Notation ne := (fun x y : Z => negb (Z.eqb x y)) (only parsing).
Notation and_ := andb (only parsing).
Notation or_ := orb (only parsing).
Definition ceildiv (x y : Z) := - (- x / y).

(* What g divides is written out as a multiple. *)
Ltac multiples :=
  repeat match goal with
  | H : ?x mod ?y = 0 |- _ => let h := fresh "h" in apply Z.mod_divide in H; [destruct H as [h H] | lia]
  end.

Ltac exact_quotients :=
  repeat match goal with
  | H : ?x = ?h * ?y |- context [?x / ?y] => replace (x / y) with h by (rewrite H; symmetry; apply Z.div_mul; lia)
  end.

(* Quotients and remainders by their equations. *)
Ltac euclid := Z.to_euclidean_division_equations; nia.
Ltac truth := apply Bool.eq_iff_eq_true; rewrite ?Bool.andb_true_iff, ?Bool.orb_true_iff, ?Bool.negb_true_iff,
  ?Z.ltb_lt, ?Z.leb_le, ?Z.eqb_eq, ?Z.eqb_neq.

Ltac index := intros; unfold ceildiv in *; subst; cbv beta in *; multiples; exact_quotients; subst;
  first [ lia | nia | euclid | (truth; solve [lia | nia | euclid]) ].

(* q y + r and its parts *)
Lemma split_div q y r : y <> 0 -> (q * y + r) / y = q + r / y.
Proof. intros. rewrite Z.add_comm, Z.div_add by assumption. ring. Qed.
Lemma split_mod q y r : (q * y + r) mod y = r mod y.
Proof. rewrite Z.add_comm. apply Z_mod_plus_full. Qed.
Lemma parts_div q g r h : 0 <= r < g -> 0 < h -> (q * g + r) / (h * g) = q / h.
Proof. intros. rewrite (Z.mul_comm h g), <- Z.div_div by lia. rewrite split_div, (Z.div_small r g) by lia.
  f_equal. lia. Qed.
Lemma parts_mod q g r h : 0 <= r < g -> 0 < h -> (q * g + r) mod (h * g) = q mod h * g + r.
Proof. intros. rewrite (Z.mod_eq (q * g + r)), (Z.mod_eq q), parts_div by nia. ring. Qed.
Lemma div_join x c1 c2 y : 0 < c1 -> 0 < c2 -> (x / c1 + y) / c2 = (x + y * c1) / (c1 * c2).
Proof. intros. rewrite <- Z.div_div by lia. rewrite Z.div_add by lia. reflexivity. Qed.
Lemma mod_join x c d : 0 < c -> 0 < d -> x mod c + c * ((x / c) mod d) = x mod (c * d).
Proof. intros. rewrite Z.rem_mul_r by lia. reflexivity. Qed.
Lemma mod_whole x c : x mod c + c * (x / c) = x.
Proof. pose proof (Z.div_mod x c). destruct (Z.eq_dec c 0) as [->|]; [rewrite Zmod_0_r, Zdiv_0_r; ring | lia]. Qed.
Lemma div_mono x y c : 0 < c -> x <= y -> x / c <= y / c.
Proof. intros. apply Z.div_le_mono; assumption. Qed.
Lemma div_anti x y c : c < 0 -> x <= y -> y / c <= x / c.
Proof. intros. rewrite <- (Z.div_opp_opp x), <- (Z.div_opp_opp y) by lia. apply Z.div_le_mono; lia. Qed.
Lemma div_between lo x hi c : lo <= x -> x <= hi -> lo / c = hi / c -> x / c = lo / c.
Proof.
  intros. destruct (Z.lt_trichotomy c 0) as [?|[->|?]].
  - pose proof (div_anti lo x c). pose proof (div_anti x hi c). lia.
  - now rewrite !Zdiv_0_r.
  - pose proof (div_mono lo x c). pose proof (div_mono x hi c). lia.
Qed.
Lemma mod_def x c : x mod c = x - c * (x / c).
Proof. pose proof (mod_whole x c). lia. Qed.
Lemma div_of_mod x d h : 0 < d -> 0 < h -> (x mod (h * d)) / d = (x / d) mod h.
Proof.
  intros. rewrite (Z.mul_comm h d), <- mod_join, (Z.mul_comm d) by lia. rewrite Z.div_add by lia.
  rewrite (Z.div_small (x mod d)) by (apply Z.mod_pos_bound; lia). lia.
Qed.
Lemma mod_join' x c d : 0 < d -> x mod c + c * ((x / c) mod d) = x mod (c * d).
Proof. intros. destruct (Z.eq_dec c 0) as [->|]; [rewrite !Zmod_0_r; lia|]. rewrite Z.rem_mul_r by lia.
  reflexivity. Qed.
Lemma div_div' x b c : 0 < c -> x / b / c = x / (b * c).
Proof. intros. destruct (Z.eq_dec b 0) as [->|]; [rewrite !Zdiv_0_r; reflexivity|]. apply Z.div_div; lia. Qed.
