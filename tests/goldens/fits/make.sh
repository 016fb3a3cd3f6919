#!/bin/sh
# Writes the golden texts of snug fit anew: cd tests/goldens/fits && ./make.sh; then read the difference.
snug="${SNUG:-../../../build/release/snug}"
cases=../../../recipes/cases
"$snug" fit $cases/parsing.yml --gpu "quadro rtx 6000" >case1.txt
"$snug" fit $cases/recipe_writing.yml --gpu 5090 >case2.txt
"$snug" fit $cases/recipe_writing.yml --gpu 5090 --allow training.optimizer_states >case2_allowed.txt
"$snug" fit $cases/security.yml --gpu a6000 --set memory.recompute=none >case3.txt
"$snug" fit $cases/compliance.yml --device cuda >case4.txt
