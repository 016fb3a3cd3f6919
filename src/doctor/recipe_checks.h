// A recipe on this machine: its model, its data, its plan, and a step that is taken and thrown away.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "doctor/check.h"
#include "recipe/recipe.h"

namespace snug {

// Rows of each file that are looked at.
inline constexpr int64_t kCheckedRows = 100;

// Of a recipe, or of all its stages. `backend` is what it would be trained on; null: it could not be opened,
// which is told elsewhere, and `device` is only planned for. Leaves nothing on the disk.
std::vector<Check> check_recipes(const std::vector<Recipe>& stages, const Device& device, Backend* backend);

}  // namespace snug
