// Taking the copy and reading it.
#include "train/snapshot.h"

#include <algorithm>

#include "base/check.h"
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

void Snapshot::read(const std::string& buffer, int64_t first_byte, int64_t bytes, const TakeBytes& take) {
  auto found = parts_.find(buffer);
  SNUG_CHECK(found != parts_.end(), "not part of a run's state: " + buffer);
  const SnapshotPart& part = found->second;
  SNUG_CHECK(first_byte >= 0 && first_byte + bytes <= part.bytes, "more than there is in " + buffer);
  const std::byte* source = memory_ + part.offset + first_byte;
  for (int64_t done = 0; done < bytes; done += kPieceBytes) {
    take({source + done, static_cast<size_t>(std::min(kPieceBytes, bytes - done))});
  }
}

}  // namespace snug
