// From events to messages.
#include "report/webhooks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/unix_time.h"
#include "io/atomic_file.h"
#include "recipe/choices.h"
#include "report/terminal.h"

namespace snug {
namespace {

// At the beginning of a run nearly every evaluation is the best one.
constexpr auto kBetweenBests = std::chrono::minutes(1);
constexpr int64_t kLongestUrlFile = 64 << 10;

std::string read_url(const Webhook& webhook) {
  std::string url;
  std::string place;
  if (!webhook.url_env.empty()) {
    const char* value = std::getenv(webhook.url_env.c_str());
    if (value == nullptr) {
      throw bad_input(fmt::format(
          "logging.webhooks: the environment variable {} is not set: export it with the webhook's URL, or "
          "leave the webhook out (--set logging.webhooks=null)",
          webhook.url_env));
    }
    url = value;
    place = "the environment variable " + webhook.url_env;
  } else {
    url = read_text_file(webhook.url_file, kLongestUrlFile);
    place = webhook.url_file;
  }
  constexpr std::string_view kSpace = " \t\r\n";
  url.erase(0, std::min(url.find_first_not_of(kSpace), url.size()));
  url.erase(url.find_last_not_of(kSpace) + 1);
  bool has_scheme = url.starts_with("https://") || url.starts_with("http://");
  if (!has_scheme || url.find_first_of(kSpace) != std::string::npos) {
    throw bad_input(fmt::format(
        "logging.webhooks: what {} holds is no URL: expected one line that begins with https:// (what is "
        "there is not repeated, as it may be a secret)",
        place));
  }
  return url;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown machine";
}

// That of its folder, with the stage's.
std::string name_of_run(const Recipe& recipe) {
  std::filesystem::path folder = std::filesystem::absolute(recipe.output_dir).lexically_normal();
  folder = folder.filename().empty() ? folder.parent_path() : folder;
  return (recipe.stage.name.empty() ? folder.filename() : folder.filename() / recipe.stage.name).string();
}

bool wants(const Webhook& webhook, WebhookEvent event) {
  return std::find(webhook.events.begin(), webhook.events.end(), event) != webhook.events.end();
}

}  // namespace

std::vector<std::string> read_webhook_urls(const LoggingSection& logging) {
  std::vector<std::string> urls;
  for (const Webhook& webhook : logging.webhooks) {
    urls.push_back(read_url(webhook));
  }
  return urls;
}

Webhooks::Webhooks(const Recipe& recipe, const std::vector<std::string>& urls, const RunEvents& events,
                   const SendingLimits& limits)
    : events_(events),
      limits_(limits),
      minutes_(recipe.logging.webhook_minutes),
      logging_steps_(std::max<int64_t>(recipe.logging.logging_steps, 1)),
      metric_(recipe.training.metric_for_best_model),
      run_(name_of_run(recipe)) {
  for (size_t i = 0; i < urls.size(); ++i) {
    targets_.emplace_back(recipe.logging.webhooks[i], urls[i], limits);
  }
}

Webhooks::~Webhooks() {
  auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(limits_.end_seconds));
  for (Target& target : targets_) {
    target.sender.finish(until);
  }
  tell_losses();
}

void Webhooks::tell(WebhookEvent event, const std::string& text, const Json& more) {
  RunMessage message{.event = event, .run = run_, .text = text, .facts = facts()};
  message.facts.update(more);
  for (Target& target : targets_) {
    if (wants(target.webhook, event)) {
      target.sender.send(webhook_body(target.webhook.kind, message, unix_seconds()),
                         event == WebhookEvent::progress);
    }
  }
}

// On the training thread, as all that is told.
void Webhooks::tell_losses() {
  for (size_t i = 0; i < targets_.size(); ++i) {
    Target& target = targets_[i];
    if (target.is_told) {
      continue;
    }
    WebhookSender::Losses losses = target.sender.losses();
    if (losses.messages == 0) {
      continue;
    }
    target.is_told = true;
    is_own_warning_ = true;
    events_.warn(fmt::format(
        "webhook {} ({}, {}) did not take {} {}: {}. Training does not wait for it; look at the URL and "
        "whether this machine can reach it",
        i + 1, name_of(target.webhook.kind),
        target.webhook.url_env.empty() ? target.webhook.url_file : target.webhook.url_env, losses.messages,
        losses.messages == 1 ? "message" : "messages",
        losses.reason.empty() ? "no answer came in time" : losses.reason));
    is_own_warning_ = false;
  }
}

Json Webhooks::facts() const {
  Json facts = {{"host", host_name()}, {"step", last_.step}, {"total_steps", beginning_.total_steps}};
  if (speed_.median() > 0) {
    facts["loss"] = last_.loss;
    facts["tokens_per_second"] = speed_.median();
    facts["seconds_left"] = speed_.seconds_for(last_.total_steps - last_.step);
  }
  if (best_) {
    facts["best"] = {{"metric", metric_}, {"step", best_->step}, {"value", best_->value}};
  }
  return facts;
}

std::string Webhooks::step_text() const {
  return beginning_.total_steps == 0 ? "the start"
                                     : fmt::format("step {}/{}", last_.step, beginning_.total_steps);
}

std::string Webhooks::best_text() const {
  return best_ ? fmt::format(" · best {} {:.4f} (step {})", metric_, best_->value, best_->step) : "";
}

void Webhooks::on_begin(const RunBeginning& beginning) {
  beginning_ = beginning;
  last_ = {};
  last_.step = beginning.steps_done;
  last_.total_steps = beginning.total_steps;
  best_ = beginning.best;
  progress_told_at_ = Clock::now();
  best_told_at_ = Clock::now() - kBetweenBests;
  tell(WebhookEvent::start,
       fmt::format("training {} on {}, {} steps{}", beginning.goes_on ? "goes on" : "begins", host_name(),
                   beginning.total_steps,
                   beginning.goes_on ? fmt::format(", {} of them are done", beginning.steps_done) : ""));
}

void Webhooks::on_step(const StepMetrics& metrics) {
  last_ = metrics;
  speed_.add(metrics.tokens, metrics.seconds);
  tell_losses();
  if (!best_is_told_) {
    tell_best();
  }
  Clock::time_point now = Clock::now();
  bool is_logged = metrics.step == 1 || metrics.step % logging_steps_ == 0;
  if (std::chrono::duration<double>(now - progress_told_at_).count() < 60 * minutes_ ||
      (minutes_ == 0 && !is_logged)) {
    return;
  }
  progress_told_at_ = now;
  tell(WebhookEvent::progress,
       fmt::format("{} · loss {:.4f} · {} tok/s · {} left{}", step_text(), metrics.loss,
                   format_count(static_cast<int64_t>(speed_.median())),
                   format_duration(speed_.seconds_for(metrics.total_steps - metrics.step)), best_text()));
}

void Webhooks::on_best(const BestEvaluation& best) {
  best_ = best;
  best_is_told_ = false;
  tell_best();
}

void Webhooks::tell_best() {
  Clock::time_point now = Clock::now();
  if (now - best_told_at_ < kBetweenBests) {
    return;  // a later step tells it
  }
  best_told_at_ = now;
  best_is_told_ = true;
  tell(WebhookEvent::best, fmt::format("best evaluation so far: {} {:.4f} at {}/{}", metric_, best_->value,
                                       best_->step, beginning_.total_steps));
}

void Webhooks::on_warning(const std::string& text) {
  if (!is_own_warning_) {
    tell(WebhookEvent::trouble, fmt::format("warning at {}: {}", step_text(), text), {{"warning", text}});
  }
}

void Webhooks::on_trouble(const Trouble& trouble) {
  tell(WebhookEvent::trouble, fmt::format("trouble at {}: {}", step_text(), trouble.text()),
       {{"trouble", trouble.name}, {"what", trouble.what}, {"remedy", trouble.remedy}});
}

void Webhooks::on_end(const TrainSummary& summary) {
  if (!summary.stopped_because.empty()) {
    return;  // the failure that follows says why, and what is left
  }
  std::string_view how = summary.interrupted   ? "stopped"
                         : summary.ended_early ? "done, for evaluations got no better"
                                               : "done";
  std::string go_on =
      summary.interrupted && !summary.checkpoint.empty() ? "; it can go on (snug train ... --resume)" : "";
  tell(WebhookEvent::end,
       fmt::format("{}: {} of {} steps in {} · loss {:.4f} → {:.4f}{}{}", how, summary.steps,
                   summary.total_steps, format_duration(summary.seconds), summary.first_loss,
                   summary.last_loss, best_text(), go_on),
       {{"interrupted", summary.interrupted},
        {"step", summary.steps},
        {"seconds", summary.seconds},
        {"first_loss", summary.first_loss},
        {"loss", summary.last_loss}});
}

void Webhooks::on_failure(const std::string& text) {
  tell(WebhookEvent::failure, fmt::format("FAILED at {}: {}", step_text(), text), {{"error", text}});
}

}  // namespace snug
