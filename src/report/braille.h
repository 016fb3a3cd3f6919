// Drawing with Braille dots: 2 x 4 dots a character.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace snug {

class BrailleCanvas {
 public:
  BrailleCanvas(int columns, int rows)
      : columns_(columns), rows_(rows), cells_(static_cast<size_t>(columns) * static_cast<size_t>(rows), 0) {}

  int width() const { return 2 * columns_; }
  int height() const { return 4 * rows_; }

  void dot(int x, int y) {
    // The bit of each dot within its character (Unicode's Braille patterns).
    static constexpr std::array<std::array<uint8_t, 2>, 4> kBits = {
        {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
    x = std::clamp(x, 0, width() - 1);
    y = std::clamp(y, 0, height() - 1);
    cells_[cell_index(x / 2, y / 4)] |= kBits[static_cast<size_t>(y % 4)][static_cast<size_t>(x % 2)];
  }

  std::string row(int index) const {
    std::string text;
    for (int column = 0; column < columns_; ++column) {
      uint8_t bits = cells_[cell_index(column, index)];
      // U+2800 + bits in UTF-8.
      text += '\xE2';
      text += static_cast<char>(0xA0 | (bits >> 6));
      text += static_cast<char>(0x80 | (bits & 0x3F));
    }
    return text;
  }

 private:
  size_t cell_index(int column, int row) const {
    return static_cast<size_t>(row) * static_cast<size_t>(columns_) + static_cast<size_t>(column);
  }

  int columns_;
  int rows_;
  std::vector<uint8_t> cells_;
};

}  // namespace snug
