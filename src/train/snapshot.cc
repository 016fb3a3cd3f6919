// Taking the copy and reading it.
#include "train/snapshot.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/split_float.h"
#include "base/threads.h"
#include "program/names.h"

namespace snug {
namespace {

// A thread copies no less at once, and a file is written in no larger pieces.
constexpr int64_t kCopyGrain = int64_t{1} << 20;
constexpr int64_t kPieceBytes = int64_t{16} << 20;

}  // namespace

bool has_snapshot(const Plan& plan) {
  // Of this plan: the arena may be that of another stage.
  return plan.phase(kSavePhase).arenas[static_cast<size_t>(Home::host)].peak_bytes > 0;
}

Snapshot::Snapshot(Executor& executor)
    : executor_(executor),
      plan_(executor.plan()),
      memory_(executor.tensor(kSavePhase, kSnapshot).as<std::byte>()) {
  for (SnapshotPart& part : snapshot_parts(plan_)) {
    parts_[part.buffer] = part;
  }
}

void Snapshot::take() {
  DeviceReader device(executor_);
  for (const auto& [name, part] : parts_) {
    std::byte* target = memory_ + part.offset;
    executor_.backend().announce(target, part.bytes);
    device.read(name, 0, part.bytes, [&](std::span<const std::byte> piece) {
      parallel_for(std::ssize(piece), kCopyGrain, [&](int64_t begin, int64_t end) {
        std::copy(piece.data() + begin, piece.data() + end, target + begin);
      });
      target += piece.size();
    });
  }
}

const std::byte* Snapshot::find(const std::string& buffer, int64_t first_byte, int64_t bytes) const {
  auto found = parts_.find(buffer);
  SNUG_CHECK(found != parts_.end(), "not part of a run's state: " + buffer);
  const SnapshotPart& part = found->second;
  SNUG_CHECK(first_byte >= 0 && first_byte + bytes <= part.bytes, "more than there is in " + buffer);
  return memory_ + part.offset + first_byte;
}

void Snapshot::read(const std::string& buffer, int64_t first_byte, int64_t bytes, const TakeBytes& take) {
  const std::byte* source = find(buffer, first_byte, bytes);
  for (int64_t done = 0; done < bytes; done += kPieceBytes) {
    take({source + done, static_cast<size_t>(std::min(kPieceBytes, bytes - done))});
  }
}

void Snapshot::read_joined(const Halves& buffers, int64_t first_element, int64_t elements,
                           const TakeBytes& take) {
  auto find_all = [&](const std::string& buffer, DType dtype) {
    return find(buffer, bytes_of(dtype, first_element), bytes_of(dtype, elements));
  };
  const auto* upper = reinterpret_cast<const bf16_t*>(find_all(buffers.upper, DType::bf16));
  const auto* rests = reinterpret_cast<const int16_t*>(find_all(buffers.rests, DType::i16));
  std::array<float, 4096> values;
  for (int64_t done = 0; done < elements; done += std::ssize(values)) {
    int64_t now = std::min<int64_t>(std::ssize(values), elements - done);
    join_floats(upper + done, rests + done, values.data(), now);
    take(std::as_bytes(std::span(values).first(static_cast<size_t>(now))));
  }
}

}  // namespace snug
