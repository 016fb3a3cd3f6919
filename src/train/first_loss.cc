// Looking at the weights.
#include "train/first_loss.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "compile/phases.h"
#include "io/tensor_source.h"
#include "train/finite.h"

namespace snug {

std::string explain_first_loss(const TrainInputs& inputs) {
  DType dtype = run_dtype(inputs.recipe, inputs.model.spec);
  std::vector<std::string> names;
  if (!inputs.recipe.model.from_scratch) {
    names = tensors_not_finite(open_tensors(inputs.model.folder), dtype);
  }
  std::string_view wider = dtype == DType::f32 ? "" : dtype == DType::f16 ? "bf16 or fp32" : "fp32";
  if (!names.empty()) {
    return fmt::format(
        "{} of the tensors in {} hold NaN or infinities{}, {} first of all. The file is damaged or was "
        "saved by a run that diverged: get it again{}",
        names.size(), inputs.model.folder, wider.empty() ? "" : fmt::format(" in {}", name_of(dtype)),
        names.front(), wider.empty() ? "" : fmt::format(", or try model.dtype: {}", wider));
  }
  return fmt::format("the weights are finite, so numbers overflow on the way in {}{}", name_of(dtype),
                     wider.empty() ? "" : fmt::format(": try model.dtype: {}", wider));
}

}  // namespace snug
