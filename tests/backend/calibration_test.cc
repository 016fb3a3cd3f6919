// Rates of cards that were measured, with clocks of the test's own.
#include "backend/cuda_plan/calibration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "backend/cuda_plan/catalogue.h"
#include "backend/cuda_plan/needs.h"
#include "backend/op_seconds.h"
#include "base/error.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "ops/table.h"
#include "support/temporary_folder.h"

namespace snug::cuda {
namespace {

namespace fs = std::filesystem;

const CardShape& h200() {
  return find_catalogue_card("H200").shape;
}

// How long the probes take on a card of such rates.
ProbeSeconds seconds_at(const DeviceRates& rates, DType dtype) {
  ProbeSeconds seconds{};
  for (const Probe& probe : card_probes(dtype)) {
    for (size_t i = probe.first_timed; i < probe.program.ops.size(); ++i) {
      seconds[static_cast<size_t>(probe.kind)] +=
          seconds_of(cost_of(probe.program, probe.program.ops[i]), rates);
    }
  }
  return seconds;
}

DeviceRates some_rates() {
  DeviceRates rates = rates_of(h200(), DType::bf16, false);
  rates.product_flops = 431e12;
  rates.bytes_per_second = 2.9e12;
  rates.paces = {1, 0.7, 1.3, 0.55};
  return rates;
}

TEST(Probes, AreProgramsThatCardsRunInLittleMemory) {
  for (DType dtype : {DType::f16, DType::bf16}) {
    std::vector<Probe> probes = card_probes(dtype);
    ASSERT_EQ(probes.size(), kProbeCount);
    for (size_t i = 0; i < probes.size(); ++i) {
      const Program& program = probes[i].program;
      SCOPED_TRACE(program.name);
      EXPECT_EQ(static_cast<size_t>(probes[i].kind), i);
      verify_with_shapes(program);
      for (const Op& op : program.ops) {
        EXPECT_EQ(find_unsupported(program, op, 75), "");
      }
      ProbePlaces places = places_of(program);
      EXPECT_LE(places.bytes, int64_t{400} << 20);
      for (size_t b = 0; b + 1 < places.offsets.size(); ++b) {
        EXPECT_GE(places.offsets[b + 1] - places.offsets[b], program.buffers[b].max_bytes());
      }
    }
  }
}

TEST(Calibration, FindsTheRatesByWhichTheProbesTookSoLong) {
  DeviceRates rates = some_rates();
  ReachedRates reached = reached_rates(h200(), seconds_at(rates, DType::bf16));
  EXPECT_NEAR(reached.product_flops, rates.product_flops, 1e-6 * rates.product_flops);
  EXPECT_NEAR(reached.bytes_per_second, rates.bytes_per_second, 1e-6 * rates.bytes_per_second);
  for (size_t i = 0; i < kPaceCount; ++i) {
    EXPECT_NEAR(reached.paces[i], rates.paces[i], 1e-6) << i;
  }
}

// By hand: 2 x 2 x 4096 x 3584 x 18944 operations in a millisecond are 1.11 PFLOP/s, a little more without
// the memory that is not hidden.
TEST(Calibration, CountsOperations) {
  ProbeSeconds seconds = seconds_at(rates_of(h200(), DType::bf16, false), DType::bf16);
  seconds[static_cast<size_t>(ProbeKind::products)] = 1e-3;
  double flops = 4.0 * 4096 * 3584 * 18944 / 1e-3;
  double reached = reached_rates(h200(), seconds).product_flops;
  EXPECT_GT(reached, flops);
  EXPECT_LT(reached, 1.05 * flops);
}

TEST(Calibration, TwoMeasurementsOfACardGiveOneRate) {
  ReachedRates first{.product_flops = 422e12, .bytes_per_second = 2.87e12, .paces = {1, 0.75, 1.33, 1}};
  ReachedRates second = first;
  second.product_flops *= 1.01;
  second.bytes_per_second *= 0.99;
  second.paces[1] *= 1.01;
  DeviceRates a = measured_rates(h200(), DType::bf16, false, first);
  DeviceRates b = measured_rates(h200(), DType::bf16, false, second);
  EXPECT_EQ(a.product_flops, b.product_flops);
  EXPECT_EQ(a.bytes_per_second, b.bytes_per_second);
  EXPECT_EQ(a.paces, b.paces);
  // Steps are of 5%, so that no rate is more than half of that from what was measured.
  EXPECT_NEAR(a.product_flops / first.product_flops, 1, 0.025);
  EXPECT_NEAR(a.bytes_per_second / first.bytes_per_second, 1, 0.025);
}

// What `snug doctor` found on one: the shares of the op table were seen on such a card, over whole steps.
TEST(Calibration, AnH200IsWhatItIsPlannedAs) {
  ReachedRates reached{
      .product_flops = 674.3e12, .bytes_per_second = 4.181e12, .paces = {1, 1.3254, 1.1763, 0.7735}};
  DeviceRates measured = measured_rates(h200(), DType::bf16, false, reached);
  DeviceRates planned = rates_of(h200(), DType::bf16, false);
  EXPECT_NEAR(measured.product_flops / planned.product_flops, 1, 0.05);
  EXPECT_NEAR(measured.bytes_per_second / planned.bytes_per_second, 1, 0.05);
  EXPECT_EQ(measured.paces, planned.paces);
}

TEST(Calibration, IsForTheDtypesThatWereMeasured) {
  ReachedRates reached{.product_flops = 400e12, .bytes_per_second = 3e12};
  DeviceRates shape = rates_of(h200(), DType::bf16, false);
  DeviceRates bf16 = measured_rates(h200(), DType::bf16, false, reached);
  EXPECT_NEAR(bf16.product_flops, 400e12, 10e12);
  EXPECT_NEAR(bf16.ceiling_flops / bf16.product_flops, shape.ceiling_flops / shape.product_flops, 1e-9);
  EXPECT_EQ(bf16.seconds_per_op, shape.seconds_per_op);
  EXPECT_EQ(measured_rates(h200(), DType::f16, false, reached).product_flops, bf16.product_flops);
  DeviceRates fp32 = measured_rates(h200(), DType::f32, true, reached);
  EXPECT_EQ(fp32.product_flops, rates_of(h200(), DType::f32, true).product_flops);
  EXPECT_EQ(fp32.bytes_per_second, bf16.bytes_per_second);
  // Turing's matrix units have no bf16.
  const CardShape& t4 = find_catalogue_card("T4").shape;
  EXPECT_EQ(probed_dtype(t4), DType::f16);
  EXPECT_EQ(measured_rates(t4, DType::bf16, false, {.product_flops = 30e12, .bytes_per_second = 250e9})
                .product_flops,
            rates_of(t4, DType::bf16, false).product_flops);
}

TEST(Calibration, WhatCannotBeIsNotBelieved) {
  ReachedRates well{.product_flops = 600e12, .bytes_per_second = 4e12};
  EXPECT_EQ(find_rates_problem(h200(), well), "");
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  for (double products : {0.0, kNaN, -1.0, std::numeric_limits<double>::infinity(), 1500e12, 50e12}) {
    ReachedRates reached = well;
    reached.product_flops = products;
    EXPECT_NE(find_rates_problem(h200(), reached), "") << products;
  }
  for (double memory : {0.0, kNaN, 6.5e12, 0.2e12}) {
    ReachedRates reached = well;
    reached.bytes_per_second = memory;
    EXPECT_NE(find_rates_problem(h200(), reached), "") << memory;
  }
  for (double pace : {0.0, kNaN, 30.0, 0.01}) {
    ReachedRates reached = well;
    reached.paces[2] = pace;
    EXPECT_NE(find_rates_problem(h200(), reached), "") << pace;
  }
  // A card that does not tell its shape is believed.
  CardShape unknown{.capability = 90, .multiprocessors = 0, .clock_hz = 0, .memory_bytes_hz = 0};
  EXPECT_EQ(find_rates_problem(unknown, well), "");
}

class Calibrate : public testing::Test {
 protected:
  CardToMeasure card() {
    return {.key = key_,
            .shape = h200(),
            .find_obstacle = [this] { return obstacle_; },
            .measure =
                [this] {
                  ++measured_;
                  if (fails_) {
                    throw environment_error("the card fell off the bus");
                  }
                  return seconds_;
                }};
  }
  Calibration calibrate_again(bool again = false) { return calibrate(card(), folder_.path(), again); }
  fs::path record() const { return folder_.path() / (key_.uuid + ".card"); }

  TemporaryFolder folder_;
  CardKey key_{.uuid = "0123456789abcdef0123456789abcdef",
               .name = "NVIDIA H200",
               .capability = 90,
               .multiprocessors = 132,
               .memory_bytes_hz = 4'800'000'000'000,
               .driver = "570.86.15",
               .kernels = "a hash"};
  std::string obstacle_;
  ProbeSeconds seconds_ = seconds_at(some_rates(), DType::bf16);
  bool fails_ = false;
  int measured_ = 0;
};

TEST_F(Calibrate, MeasuresOnceAndRemembers) {
  Calibration first = calibrate_again();
  ASSERT_TRUE(first.reached);
  EXPECT_EQ(first.text, "measured on this card");
  obstacle_ = "others hold it";  // what is known needs no measuring
  Calibration second = calibrate_again();
  EXPECT_EQ(measured_, 1);
  ASSERT_TRUE(second.reached);
  EXPECT_EQ(*second.reached, *first.reached);
  EXPECT_EQ(read_json(record())["card"]["name"], "NVIDIA H200");
}

TEST_F(Calibrate, AnythingThatTheFiguresDependOnMeasuresAnew) {
  calibrate_again();
  CardKey before = key_;
  auto expect_anew = [&](auto change) {
    key_ = before;
    change(key_);
    int known = measured_;
    calibrate_again();
    EXPECT_EQ(measured_, known + 1);
  };
  expect_anew([](CardKey& key) { key.driver = "580.1"; });
  expect_anew([](CardKey& key) { key.kernels = "another"; });
  expect_anew([](CardKey& key) { key.multiprocessors = 66; });
  expect_anew([](CardKey& key) { key.memory_bytes_hz /= 2; });
  expect_anew([](CardKey& key) { key.uuid[0] = 'f'; });
  int known = measured_;
  calibrate_again(true);
  EXPECT_EQ(measured_, known + 1) << "asked for";
}

TEST_F(Calibrate, ACardInUseIsNotMeasured) {
  obstacle_ = "others hold 100 GiB of it";
  Calibration found = calibrate_again();
  EXPECT_FALSE(found.reached);
  EXPECT_EQ(measured_, 0);
  EXPECT_EQ(found.text, "assumed from the card's shape: others hold 100 GiB of it");
  EXPECT_FALSE(fs::exists(record()));
}

TEST_F(Calibrate, WhatFailsIsSaidAndStopsNothing) {
  fails_ = true;
  Calibration failed = calibrate_again();
  EXPECT_FALSE(failed.reached);
  EXPECT_NE(failed.text.find("fell off the bus"), std::string::npos) << failed.text;
  fails_ = false;
  for (double seconds : {0.0, 1e6, std::numeric_limits<double>::quiet_NaN()}) {
    seconds_[static_cast<size_t>(ProbeKind::products)] = seconds;
    Calibration absurd = calibrate_again();
    EXPECT_FALSE(absurd.reached) << seconds;
    EXPECT_NE(absurd.text.find("cannot be"), std::string::npos) << absurd.text;
    EXPECT_FALSE(fs::exists(record()));
  }
}

TEST_F(Calibrate, ARecordThatIsNoneIsMeasuredAgain) {
  calibrate_again();
  std::string whole = read_text_file(record());
  Json absurd = parse_json(whole, "record");
  absurd["reached"]["product_flops"] = 1e18;
  Json empty = parse_json(whole, "record");
  empty["reached"].erase("attention");
  Json text = parse_json(whole, "record");
  text["reached"]["bytes_per_second"] = "fast";
  for (const std::string& content : {std::string(), whole.substr(0, whole.size() / 2), std::string("[1]"),
                                     std::string("{\"card\": 3, \"reached\": {}}"), absurd.dump(),
                                     empty.dump(), text.dump(), std::string(100'000, ' ')}) {
    write_file_atomically(record(), content);
    int known = measured_;
    EXPECT_TRUE(calibrate_again().reached);
    EXPECT_EQ(measured_, known + 1) << content.substr(0, 200);
    EXPECT_EQ(read_text_file(record()), whole);
  }
}

TEST_F(Calibrate, WithoutAPlaceToRememberItIsMeasuredEachTime) {
  Calibration nowhere = calibrate(card(), "", false);
  EXPECT_TRUE(nowhere.reached);
  EXPECT_EQ(nowhere.text, "measured on this card, not remembered");
  write_file_atomically(folder_.path() / "file", "");
  Calibration in_a_file = calibrate(card(), folder_.path() / "file", false);
  EXPECT_TRUE(in_a_file.reached);
  EXPECT_EQ(in_a_file.text, "measured on this card, not remembered");
  EXPECT_EQ(measured_, 2);
}

TEST_F(Calibrate, RecordsAreListedAndClearedAndNothingElseIs) {
  calibrate_again();
  write_file_atomically(folder_.path() / "mine.card", "{}");
  write_file_atomically(folder_.path() / "fedcba9876543210fedcba9876543210.card", "{");
  std::vector<CardRecord> records = list_card_records(folder_.path());
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].name, "NVIDIA H200");
  EXPECT_EQ(records[0].bytes, static_cast<int64_t>(fs::file_size(record())));
  EXPECT_EQ(records[1].name, "");
  EXPECT_EQ(clear_card_records(folder_.path(), 1), 0) << "used today";
  EXPECT_EQ(clear_card_records(folder_.path(), 0), records[0].bytes + records[1].bytes);
  EXPECT_TRUE(list_card_records(folder_.path()).empty());
  EXPECT_TRUE(fs::exists(folder_.path() / "mine.card"));
  EXPECT_TRUE(list_card_records(folder_.path() / "none").empty());
}

}  // namespace
}  // namespace snug::cuda
