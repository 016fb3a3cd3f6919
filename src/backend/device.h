// What a plan has to know of a device: its memory, and what its kernels need and support.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ops/table.h"
#include "program/program.h"

namespace snug {

// What a device is good for; 0: not known.
struct DeviceRates {
  double product_flops = 0;     // of matrix products, the reading and writing of memory left out
  double ceiling_flops = 0;     // of large matrix products, all in: what speeds are held against
  double bytes_per_second = 0;  // of kernels that read and write the device's memory
  double seconds_per_op = 0;    // between the end of one and the next at work
  bool scales_rows = true;      // whether products of 8 bits take a scale a row, or results are scaled apart
  // By Pace: how fast such ops are beside what the op table and the rates above make of them.
  std::array<double, kPaceCount> paces = {1, 1, 1, 1};

  double pace_of(Pace pace) const { return paces[static_cast<size_t>(pace)]; }
};

// Where a device's rates come from.
struct RatesOrigin {
  bool is_measured = false;
  std::string text = {};  // "measured on this card", "assumed from the card's shape: ..."; "": none are known
};

// How a card is now; what the driver does not tell is left out.
struct CardHealth {
  std::optional<int> celsius;
  std::optional<double> watts;
  bool is_slowed_by_heat = false;
  bool is_slowed_by_power_brake = false;  // its supply does not give what it may take
};

// Which device it is, for the record of a run; "": not known.
struct DeviceIdentity {
  std::string model;   // "NVIDIA H200", or a processor's name
  std::string driver;  // its version
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;
  // As --device names it: with the number of the card that it is, if it is one.
  virtual std::string label() const { return std::string(name()); }
  // The device it found, its free memory and who else uses it, on one line; "" if there is nothing to say.
  virtual std::string description() const { return ""; }

  // Asked while it works; nothing where there is no such thing.
  virtual std::optional<CardHealth> health() const { return std::nullopt; }

  virtual DeviceIdentity identity() const { return {}; }

  // For computing in this dtype.
  virtual DeviceRates rates(DType /*dtype*/) const { return {}; }
  // As its shape lets expect them, whatever was measured.
  virtual DeviceRates assumed_rates(DType dtype) const { return rates(dtype); }
  virtual RatesOrigin rates_origin() const { return {}; }

  // "" if there is a kernel for this op on buffers of these dtypes; else what is missing.
  virtual std::string find_unsupported(const Program& program, const Op& op) const = 0;
  // Threads of the host that share the kernels' work, and for which scratch memory is planned; 0: none do.
  virtual int threads() const { return 0; }
  // Scratch memory that the kernel needs at the planned sizes.
  virtual int64_t workspace_bytes(const Program& program, const Op& op) const = 0;

  // The arena that stands for `home` here. Where host and device are one memory, pinned and device are one
  // arena, and what is staged at one time shares its bytes with what is computed at another; the host's copy
  // of the device stays apart.
  virtual Home home_of(Home home) const { return home; }

  // What the device has in all, if that is known, and what the driver takes of it before the first
  // allocation.
  virtual std::optional<int64_t> device_total_bytes() const = 0;
  virtual int64_t context_bytes() const = 0;
  // What is free of the host's memory now, if that is known.
  virtual std::optional<int64_t> host_available_bytes() const { return std::nullopt; }
};

}  // namespace snug
