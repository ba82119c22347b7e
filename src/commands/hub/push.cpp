// hone push: uploads a run's adapter to the hub.
#include <unistd.h>

#include <chrono>
#include <iostream>

#include "adapters/peft_files.h"
#include "adapters/server_rules.h"
#include "base/error.h"
#include "base/process/active_python.h"
#include "commands/commands.h"
#include "commands/hub/hub_push.h"
#include "commands/process/run_signals.h"
#include "config/commands/send_plans.h"
#include "config/hub_names.h"
#include "report/terminal/terminal.h"
#include "train/saves/run_folder.h"

namespace hone::commands {

namespace {

// A folder that is removed in the end.
struct PushFolder {
  base::fs::path path;
  explicit PushFolder(base::fs::path at) : path(std::move(at)) {}
  PushFolder(const PushFolder&) = delete;
  PushFolder& operator=(const PushFolder&) = delete;
  ~PushFolder() {
    std::error_code none;
    base::fs::remove_all(path, none);
  }
};

// Servers that answer with status 200 and lose a part of the adapter.
void warn_of_servers(const base::fs::path& run) {
  for (const char* const file : {adapters::kConfigFile, adapters::kWeightsFile}) {
    if (!base::fs::exists(run / file)) return;  // the whole model was trained
  }
  try {
    for (const adapters::ServerLoss& loss : adapters::silent_losses(run))
      std::cout << "warn      " << report::visible_controls(adapters::told_loss(loss)) << '\n';
  } catch (const base::UserError& error) {
    // It is uploaded as it is: what a server makes of it is not known.
    std::cout << "note      not compared with the rules of servers: "
              << report::visible_controls(error.text().found) << '\n';
  }
}

}  // namespace

int push(const std::vector<std::string>& arguments) {
  const config::PushPlan plan = config::parse_push(arguments);
  const std::string repository = repository_of(plan.hub_model_id, plan.run);
  const auto refuse = [&](const std::string& found, const std::string& fix) {
    throw base::UserError({.where = "hone push",
                           .expected = repository + " to take the adapter in " + plan.run,
                           .found = found,
                           .cause = "it is uploaded by '" + base::active_python(plan.python).program +
                                    "', with your own huggingface_hub and token",
                           .fix = fix});
  };
  if (config::hub_is_offline()) refuse("HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set", "unset it");
  warn_of_servers(plan.run);
  HubUpload upload{.files = result_files(plan.run), .message = "Upload adapter"};
  const base::fs::path run = plan.run;
  const std::string pid = std::to_string(getpid());
  // A checkpoint's files are counted: nothing is written there.
  const bool checkpoint = base::fs::exists(run / train::kHoneStateFile);
  const PushFolder scratch(base::fs::temp_directory_path() / ("hone-card-" + pid));
  if (checkpoint) base::fs::create_directories(scratch.path);
  const std::string card = model_card_of(run, repository, plan.method, plan.config);
  upload.files.emplace_back("README.md",
                            write_model_card(checkpoint ? scratch.path : run, card, /*keep=*/true));
  stage(upload, (checkpoint ? scratch.path : run) / (".hone-push-" + pid));
  const PushFolder staged(upload.folder);
  std::cout << "push      " << repository << ": uploading " << upload.files.size() << " files of " << plan.run
            << std::endl;
  const std::atomic<bool>& stop = watch_stop_signals();
  HubProcess process(plan, repository, upload, plan.python, /*shows_output=*/true);
  if (!process.wait(base::Clock::now() + std::chrono::hours(24), &stop)) return kInterrupted;
  if (!process.failure().empty()) {
    refuse(process.failure(),
           "correct that (`hf auth login` gives it a token) and call hone push again: nothing is lost");
  }
  std::cout << "pushed    " << process.url() << '\n';
  return 0;
}

}  // namespace hone::commands
