#include "report/page/run_page.h"

#include <algorithm>
#include <exception>

#include "base/error.h"
#include "report/page/page_text.h"
#include "report/terminal/verdict_lines.h"
#include "train/saves/run_folder.h"

namespace hone::report {

namespace {

constexpr int kRefreshSeconds = 5;

}  // namespace

std::int64_t seconds_now() {
  using namespace std::chrono;
  return duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
}

RunPage::~RunPage() {
  if (metrics_ == nullptr || facts_.end != RunEnd::kRunning) return;
  facts_.end = RunEnd::kFailed;
  write([](std::string_view) {});
}

void RunPage::on_start(const train::StartFacts& facts, const Say& say) {
  folder_ = facts.output_dir;
  facts_ = facts_of_start(facts, seconds_now());
  facts_.continue_from(read_page_facts(folder_), facts.first_step);
  metrics_ = std::make_unique<MetricsReader>(folder_ / train::kMetricsFile);
  completions_ = std::make_unique<CompletionsReader>(folder_ / train::kCompletionsFolder);
  write(say);
  if (!failed_) say("page      " + (folder_ / train::kPageFile).string());
}

void RunPage::on_verdict(const base::Verdict& verdict, std::int64_t step) {
  facts_.verdicts.emplace_back(step, verdict_json(verdict));
  logged_ = true;
}

void RunPage::on_log(const train::LogRecord&, const Say& say) {
  logged_ = true;
  poll(say);
}

void RunPage::poll(const Say& say) {
  if (logged_ && may_write()) write(say);
}

void RunPage::on_finish(bool interrupted, std::int64_t, const Say& say) {
  facts_.end = interrupted ? RunEnd::kStopped : RunEnd::kFinished;
  write(say);
}

bool RunPage::may_write() const {
  return metrics_ != nullptr && Clock::now() >= next_;
}

void RunPage::write(const Say& say) {
  const auto begin = Clock::now();
  logged_ = false;
  try {
    write_files();
  } catch (const base::UserError& error) {
    note_failure(error.text().where + ": " + error.text().found, say);
  } catch (const std::exception& error) {
    note_failure(error.what(), say);
  }
  const auto end = Clock::now();
  const double spent = std::chrono::duration<double>(end - begin).count();
  const std::chrono::duration<double> wait(std::max(options_.least_seconds, spent / options_.most_share));
  next_ = end + std::chrono::duration_cast<Clock::duration>(wait);
}

void RunPage::note_failure(const std::string& why, const Say& say) {
  if (!failed_) say("note      the page is not written: " + why);
  failed_ = true;
}

void RunPage::write_files() {
  write_page_facts(folder_, facts_);
  PageRun run{.name = folder_.string(),
              .method = options_.method,
              .metrics = &metrics_->read(),
              .completions = completions_->read(),
              .samples = read_samples(folder_ / train::kSamplesFile),
              .facts = facts_,
              .plan = options_.plan};
  const bool goes_on = facts_.end == RunEnd::kRunning;
  const PageTimes times{.written = seconds_now(), .refresh_seconds = goes_on ? kRefreshSeconds : 0};
  base::write_file_atomic(folder_ / train::kPageFile, page_text(page_data({run}, times)));
}

}  // namespace hone::report
