// The names that recipes and reports use for the recipe's enumerations, in the order in which they are
// listed.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "recipe/recipe.h"

namespace snug {

template <typename Enum>
using Choice = std::pair<std::string_view, Enum>;

inline constexpr std::array<Choice<Quantization>, 5> kQuantizations = {{
    {"none", Quantization::none},
    {"nf4", Quantization::nf4},
    {"nf4_double", Quantization::nf4_double},
    {"fp4", Quantization::fp4},
    {"int8", Quantization::int8},
}};

inline constexpr std::array<Choice<Compute>, 2> kComputes = {{
    {"dtype", Compute::dtype},
    {"fp8", Compute::fp8},
}};

inline constexpr std::array<Choice<WebhookKind>, 3> kWebhookKinds = {{
    {"discord", WebhookKind::discord},
    {"slack", WebhookKind::slack},
    {"json", WebhookKind::json},
}};

inline constexpr std::array<Choice<WebhookEvent>, 6> kWebhookEvents = {{
    {"start", WebhookEvent::start},
    {"progress", WebhookEvent::progress},
    {"best", WebhookEvent::best},
    {"trouble", WebhookEvent::trouble},
    {"end", WebhookEvent::end},
    {"failure", WebhookEvent::failure},
}};

inline constexpr std::array<Choice<LoraBias>, 3> kLoraBiases = {{
    {"none", LoraBias::none},
    {"all", LoraBias::all},
    {"lora_only", LoraBias::lora_only},
}};

inline constexpr std::array<Choice<StageStart>, 3> kStageStarts = {{
    {"continue", StageStart::go_on},
    {"stack", StageStart::stack},
    {"merge", StageStart::merge_first},
}};

inline constexpr std::array<Choice<DataFormat>, 7> kDataFormats = {{
    {"auto", DataFormat::automatic},
    {"text", DataFormat::text},
    {"prompt_completion", DataFormat::prompt_completion},
    {"instruction", DataFormat::instruction},
    {"input_output", DataFormat::input_output},
    {"messages", DataFormat::messages},
    {"conversations", DataFormat::conversations},
}};

inline constexpr std::array<Choice<TrainOn>, 3> kTrainOn = {{
    {"completions", TrainOn::completions},
    {"last_completion", TrainOn::last_completion},
    {"everything", TrainOn::everything},
}};

inline constexpr std::array<Choice<Truncation>, 3> kTruncations = {{
    {"cut", Truncation::cut},
    {"drop", Truncation::drop},
    {"split", Truncation::split},
}};

inline constexpr std::array<Choice<TruncationSide>, 2> kTruncationSides = {{
    {"right", TruncationSide::right},
    {"left", TruncationSide::left},
}};

inline constexpr std::array<Choice<OnBadRow>, 2> kOnBadRow = {{
    {"stop", OnBadRow::stop},
    {"skip", OnBadRow::skip},
}};

inline constexpr std::array<Choice<Schedule>, 8> kSchedules = {{
    {"linear", Schedule::linear},
    {"cosine", Schedule::cosine},
    {"cosine_with_restarts", Schedule::cosine_with_restarts},
    {"cosine_with_min_lr", Schedule::cosine_with_min_lr},
    {"polynomial", Schedule::polynomial},
    {"inverse_sqrt", Schedule::inverse_sqrt},
    {"constant", Schedule::constant},
    {"constant_with_warmup", Schedule::constant_with_warmup},
}};

inline constexpr std::array<Choice<SaveStrategy>, 5> kSaveStrategies = {{
    {"no", SaveStrategy::no},
    {"steps", SaveStrategy::steps},
    {"epoch", SaveStrategy::epoch},
    {"best", SaveStrategy::best},
    {"minutes", SaveStrategy::minutes},
}};

inline constexpr std::array<Choice<Optimizer>, 2> kOptimizers = {{
    {"adamw", Optimizer::adamw},
    {"adafactor", Optimizer::adafactor},
}};

inline constexpr std::array<Choice<DType>, 2> kGradientDtypes = {{
    {"fp32", DType::f32},
    {"bf16", DType::bf16},
}};

inline constexpr std::array<Choice<OptimizerStates>, 3> kOptimizerStates = {{
    {"fp32", OptimizerStates::fp32},
    {"bf16", OptimizerStates::bf16},
    {"8bit", OptimizerStates::eight_bits},
}};

inline constexpr std::array<Choice<OnTrouble>, 2> kOnTrouble = {{
    {"stop", OnTrouble::stop},
    {"warn", OnTrouble::warn},
}};

inline constexpr std::array<Choice<ReportTo>, 2> kReportTo = {{
    {"tensorboard", ReportTo::tensorboard},
    {"none", ReportTo::none},
}};

inline constexpr std::array<Choice<Recompute>, 3> kRecomputePolicies = {{
    {"none", Recompute::none},
    {"selective", Recompute::selective},
    {"full", Recompute::full},
}};

template <typename Choices, typename Enum>
constexpr std::string_view choice_name(const Choices& choices, Enum value) {
  for (const auto& [name, choice] : choices) {
    if (choice == value) {
      return name;
    }
  }
  return "";
}

constexpr std::string_view name_of(Quantization quantization) {
  return choice_name(kQuantizations, quantization);
}
constexpr std::string_view name_of(Compute compute) {
  return choice_name(kComputes, compute);
}
constexpr std::string_view name_of(LoraBias bias) {
  return choice_name(kLoraBiases, bias);
}
constexpr std::string_view name_of(StageStart start) {
  return choice_name(kStageStarts, start);
}
constexpr std::string_view name_of(DataFormat format) {
  return choice_name(kDataFormats, format);
}
constexpr std::string_view name_of(TrainOn choice) {
  return choice_name(kTrainOn, choice);
}
constexpr std::string_view name_of(Truncation choice) {
  return choice_name(kTruncations, choice);
}
constexpr std::string_view name_of(TruncationSide side) {
  return choice_name(kTruncationSides, side);
}
constexpr std::string_view name_of(OnBadRow choice) {
  return choice_name(kOnBadRow, choice);
}
constexpr std::string_view name_of(Schedule schedule) {
  return choice_name(kSchedules, schedule);
}
constexpr std::string_view name_of(SaveStrategy strategy) {
  return choice_name(kSaveStrategies, strategy);
}
constexpr std::string_view name_of(Optimizer optimizer) {
  return choice_name(kOptimizers, optimizer);
}
constexpr std::string_view name_of(OptimizerStates states) {
  return choice_name(kOptimizerStates, states);
}
constexpr std::string_view name_of(OnTrouble policy) {
  return choice_name(kOnTrouble, policy);
}
constexpr std::string_view name_of(ReportTo reader) {
  return choice_name(kReportTo, reader);
}
constexpr std::string_view name_of(WebhookKind kind) {
  return choice_name(kWebhookKinds, kind);
}
constexpr std::string_view name_of(WebhookEvent event) {
  return choice_name(kWebhookEvents, event);
}
// "" of what is none of the three.
constexpr std::string_view name_of(Recompute policy) {
  return choice_name(kRecomputePolicies, policy);
}

}  // namespace snug
