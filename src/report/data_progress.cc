// Progress of the data.
#include "report/data_progress.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "io/printable.h"

namespace snug {

void DataProgressLine::show(const DataProgress& progress) {
  line_.show({.what = printable(progress.stage),
              .done = progress.done_bytes,
              .total = progress.total_bytes,
              .detail = progress.rows > 0 ? fmt::format("{} rows", format_count(progress.rows)) : ""});
}

}  // namespace snug
