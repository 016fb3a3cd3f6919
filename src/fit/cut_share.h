// What a shorter max_length would cut from data.
#pragma once

#include <cstdint>

#include "data/dataset.h"

namespace snug {

struct CutShare {
  double rows = 0;    // that lose something
  double tokens = 0;  // that are lost
};

enum class CutSide { sources, answers };  // of an encoder-decoder model; any other has answers alone

CutShare share_cut(const Dataset& dataset, int64_t length_tokens, CutSide side = CutSide::answers);

}  // namespace snug
