// Cards and who is on them, with a driver's library that the test brings: only the table of its functions is
// not the real one.
#include "doctor/card_checks.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "backend/cuda_plan/planned_card.h"

namespace snug {
namespace {

constexpr unsigned long long kMiB = 1ULL << 20;

struct FakeDriver {
  unsigned cards = 1;
  std::string name = "Quadro RTX 6000";
  int major = 7;
  int minor = 5;
  unsigned long long total = 24208 * kMiB;  // 23.64 GiB
  unsigned long long reserved = 384 * kMiB;
  unsigned long long used = 0;  // by processes
  std::vector<cuda::NvmlProcess> processes;
};
FakeDriver driver;

int put(const std::string& text, char* target, unsigned length) {
  std::snprintf(target, length, "%s", text.c_str());
  return cuda::kNvmlSuccess;
}

int list(void*, unsigned* count, cuda::NvmlProcess* found) {
  *count = static_cast<unsigned>(driver.processes.size());
  std::copy(driver.processes.begin(), driver.processes.end(), found);
  return cuda::kNvmlSuccess;
}

cuda::NvmlTable fake_table() {
  cuda::NvmlTable table;
  table.driver_version = [](char* text, unsigned length) { return put("570.86.15", text, length); };
  table.cuda_version = [](int* version) {
    *version = 12080;
    return cuda::kNvmlSuccess;
  };
  table.count = [](unsigned* count) {
    *count = driver.cards;
    return cuda::kNvmlSuccess;
  };
  table.by_index = [](unsigned, void** card) {
    *card = nullptr;
    return cuda::kNvmlSuccess;
  };
  table.name = [](void*, char* text, unsigned length) { return put(driver.name, text, length); };
  table.capability = [](void*, int* major, int* minor) {
    *major = driver.major;
    *minor = driver.minor;
    return cuda::kNvmlSuccess;
  };
  table.memory_v2 = [](void*, cuda::NvmlMemoryV2* memory) {
    if (memory->version != (40U | (2U << 24))) {  // as the driver's header computes it
      return 25;                                  // NVML_ERROR_ARGUMENT_VERSION_MISMATCH
    }
    memory->total = driver.total;
    memory->reserved = driver.reserved;
    memory->used = driver.used;
    memory->free = driver.total - driver.reserved - driver.used;
    return cuda::kNvmlSuccess;
  };
  table.compute_processes = list;
  table.process_name = [](unsigned, char* text, unsigned length) {
    return put("/usr/bin/python3", text, length);
  };
  return table;
}

std::optional<ProcessFacts> one_of_anna(unsigned pid) {
  if (pid != 18231) {
    return std::nullopt;
  }
  return ProcessFacts{.user = "anna", .command = "python3 train.py", .seconds = 11100};
}

std::vector<Check> checks_of(const FakeDriver& machine) {
  driver = machine;
  return check_cards(fake_table(), true, one_of_anna);
}

std::string text_of(const std::vector<Check>& checks) {
  return doctor_report(checks, Style(false));
}

TEST(CardChecks, AFreeCard) {
  std::vector<Check> checks = checks_of({});
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_EQ(checks[0].status, CheckStatus::ok);
  EXPECT_EQ(checks[0].text, "Quadro RTX 6000: 23.27 GiB of 23.64 GiB free; driver 570.86.15, CUDA 12.8");
}

// Two processes, one of them not to be seen from here, and memory that neither has.
TEST(CardChecks, WhoHoldsIt) {
  FakeDriver machine;
  machine.used = 21250 * kMiB;
  machine.processes = {{.pid = 4711, .used_bytes = 9 * kMiB, .gpu_instance = 0, .compute_instance = 0},
                       {.pid = 18231, .used_bytes = 14212 * kMiB, .gpu_instance = 0, .compute_instance = 0}};
  EXPECT_EQ(text_of(checks_of(machine)),
            "  ok       card  Quadro RTX 6000: 2.51 GiB of 23.64 GiB free; driver 570.86.15, CUDA 12.8\n"
            "  warning  card  holds 13.88 GiB: process 18231 of anna, for 3h 05m: python3 train.py\n"
            "                 → wait until it is done (snug train --wait), speak with its owner, or plan for "
            "what is "
            "free (--memory 2574MiB)\n"
            "  ok       card  holds 9.0 MiB: process 4711 (python3), which cannot be seen from here\n"
            "  warning  card  6.86 GiB are held by no process that can be seen\n"
            "                 → they are another container's, or a process is ending and the driver still "
            "has to free "
            "them: wait (snug train --wait), or plan for what is free (--memory 2574MiB)\n"
            "\n"
            "  2 warnings, no problem\n");
}

// Whatever is held and by whom, nobody is told to kill, to reset or to reboot.
TEST(CardChecks, NoRemedyIsWorseThanTheIll) {
  FakeDriver machine;
  machine.used = 23000 * kMiB;
  machine.processes = {
      {.pid = 18231, .used_bytes = cuda::kNvmlNotAvailable, .gpu_instance = 0, .compute_instance = 0}};
  std::string text = text_of(checks_of(machine));
  EXPECT_NE(text.find("an amount that the driver does not tell"), std::string::npos) << text;
  EXPECT_EQ(text.find("by no process"), std::string::npos) << "nobody knows";
  for (const char* word : {"kill", "reset", "reboot", "restart"}) {
    EXPECT_EQ(text.find(word), std::string::npos) << word << "\n" << text;
  }
}

TEST(CardChecks, ACardThatIsTooOld) {
  FakeDriver machine;
  machine.name = "Tesla V100";
  machine.major = 7;
  machine.minor = 0;
  std::vector<Check> checks = checks_of(machine);
  ASSERT_NE(first_problem(checks), nullptr);
  EXPECT_NE(first_problem(checks)->text.find("compute capability 7.0"), std::string::npos);
}

TEST(CardChecks, WithoutADriverOneLineSaysSo) {
  std::vector<Check> checks = check_cards({}, false, one_of_anna);
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_EQ(checks[0].status, CheckStatus::ok);
  EXPECT_NE(checks[0].text.find("libnvidia-ml.so.1"), std::string::npos);
  EXPECT_EQ(check_cards({}, true, one_of_anna)[0].status, CheckStatus::problem);
}

// Older drivers tell of memory in the first form alone.
TEST(CardChecks, AnOlderDriver) {
  driver = {};
  driver.used = 5000 * kMiB;
  cuda::NvmlTable table = fake_table();
  table.memory_v2 = nullptr;
  table.memory = [](void*, cuda::NvmlMemory* memory) {
    memory->total = driver.total;
    memory->used = driver.used + driver.reserved;
    memory->free = memory->total - memory->used;
    return cuda::kNvmlSuccess;
  };
  std::vector<cuda::CardUse> cards = cuda::all_cards(table);
  ASSERT_EQ(cards.size(), 1U);
  EXPECT_EQ(cards[0].free_bytes(), static_cast<int64_t>((24208 - 384 - 5000) * kMiB));
}

TEST(CardChecks, ACardThatIsLost) {
  driver = {};
  cuda::NvmlTable table = fake_table();
  table.memory_v2 = [](void*, cuda::NvmlMemoryV2*) { return 15; };  // NVML_ERROR_GPU_IS_LOST
  std::vector<Check> checks = check_cards(table, true, one_of_anna);
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_EQ(checks[0].status, CheckStatus::problem);
  EXPECT_EQ(checks[0].text, "the driver knows no card");
}

// A card whose rates are known.
class RatedCard : public PlannedCard {
 public:
  RatedCard(double share, bool is_measured) : share_(share), is_measured_(is_measured) {}

  DeviceRates rates(DType dtype) const override {
    DeviceRates rates = assumed_rates(dtype);
    rates.product_flops *= share_;
    return rates;
  }
  DeviceRates assumed_rates(DType /*dtype*/) const override {
    return {
        .product_flops = 690e12, .ceiling_flops = 720e12, .bytes_per_second = 4.1e12, .seconds_per_op = 1e-6};
  }
  RatesOrigin rates_origin() const override {
    return {.is_measured = is_measured_,
            .text = is_measured_ ? "measured on this card" : "assumed from the card's shape: it is in use"};
  }

 private:
  double share_;
  bool is_measured_;
};

TEST(CardChecks, HowFastACardIs) {
  Check well = check_rates(RatedCard(0.9, true));
  EXPECT_EQ(well.status, CheckStatus::ok);
  EXPECT_EQ(well.text,
            "products 621 TFLOP/s in 16 bits, memory 4,100 GB/s, measured on this card: 90% and 100% of what "
            "such a card usually reaches");
  Check slow = check_rates(RatedCard(0.4, true));
  EXPECT_EQ(slow.status, CheckStatus::warning);
  EXPECT_NE(slow.text.find("40% and 100%"), std::string::npos) << slow.text;
  EXPECT_NE(slow.remedy.find("snug doctor --calibrate"), std::string::npos) << slow.remedy;
  Check assumed = check_rates(RatedCard(1, false));
  EXPECT_EQ(assumed.status, CheckStatus::ok);
  EXPECT_EQ(assumed.text.find("usually reaches"), std::string::npos) << "nothing was measured";
  EXPECT_NE(assumed.text.find("it is in use"), std::string::npos) << assumed.text;
}

}  // namespace
}  // namespace snug
