(* Rows of mode fast: true over the reals. *)
From Coq Require Export Reals Lra.
Open Scope R_scope.
Notation add := Rplus (only parsing).
Notation mul := Rmult (only parsing).
Notation div := Rdiv (only parsing).
Notation neg := Ropp (only parsing).
Notation exp := Rtrigo_def.exp (only parsing).
Notation log := ln (only parsing).
Ltac real := intros; first [ ring | field; assumption | apply ln_exp ].
