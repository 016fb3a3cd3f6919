#!/bin/sh
# Writes the golden texts of snug fit anew: cd tests/goldens/fits && ./make.sh; then read the difference.
snug="${SNUG:-../../../build/release/snug}"
cases=../../../recipes/cases
"$snug" fit $cases/parsing.yml --gpu "quadro rtx 6000" >parsing.txt
"$snug" fit $cases/recipe_writing.yml --gpu 5090 >recipe_writing.txt
"$snug" fit $cases/recipe_writing.yml --gpu 5090 --allow training.optimizer_states >recipe_writing_allowed.txt
"$snug" fit $cases/security.yml --gpu a6000 --set memory.recompute=none >security.txt
"$snug" fit $cases/compliance.yml --device cuda >compliance.txt
