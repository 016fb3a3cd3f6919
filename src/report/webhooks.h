// Tells people elsewhere how a run goes: by a webhook of Discord, of Slack, or of their own.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "recipe/recipe.h"
#include "report/recent_speed.h"
#include "report/webhook_sender.h"
#include "report/webhook_text.h"
#include "train/run_events.h"

namespace snug {

// The URL of each of logging.webhooks, from the environment or a file. Throws bad_input, which has none of
// them in it.
std::vector<std::string> read_webhook_urls(const LoggingSection& logging);

class Webhooks : public RunListener {
 public:
  // What cannot be delivered is told to `events`, once for each webhook; it must outlive this.
  Webhooks(const Recipe& recipe, const std::vector<std::string>& urls, const RunEvents& events,
           const SendingLimits& limits = {});
  ~Webhooks() override;  // waits a little for what is on its way
  Webhooks(const Webhooks&) = delete;
  Webhooks& operator=(const Webhooks&) = delete;

  void on_begin(const RunBeginning& beginning) override;
  void on_step(const StepMetrics& metrics) override;
  void on_best(const BestEvaluation& best) override;
  void on_warning(const std::string& text) override;
  void on_trouble(const Trouble& trouble) override;
  void on_end(const TrainSummary& summary) override;
  void on_failure(const std::string& text) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Target {
    Target(const Webhook& what, const std::string& url, const SendingLimits& limits)
        : webhook(what), sender(url, limits) {}

    Webhook webhook;
    WebhookSender sender;
    bool is_told = false;  // that it loses messages
  };

  void tell(WebhookEvent event, const std::string& text, const Json& more = Json::object());
  void tell_best();
  void tell_losses();
  std::string step_text() const;  // "step 12/60"
  std::string best_text() const;  // " · best eval_loss 1.2345 (step 10)", or ""
  Json facts() const;

  const RunEvents& events_;
  SendingLimits limits_;
  double minutes_;
  int64_t logging_steps_;
  std::string metric_;
  std::string run_;
  std::deque<Target> targets_;
  bool is_own_warning_ = false;
  RunBeginning beginning_;
  StepMetrics last_;
  RecentSpeed speed_;
  std::optional<BestEvaluation> best_;
  bool best_is_told_ = true;
  Clock::time_point best_told_at_;
  Clock::time_point progress_told_at_;
};

}  // namespace snug
