// hone chat: a conversation with a model, on the terminal or through a pipe.
#include <ATen/Parallel.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <iostream>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/strings/plural.h"
#include "base/strings/suggest.h"
#include "commands/chat_tools.h"
#include "commands/commands.h"
#include "commands/decoding.h"
#include "commands/hub/hub_download.h"
#include "commands/ranks/placement.h"
#include "config/commands/tool_plans.h"
#include "model/config/rotations.h"
#include "report/terminal/terminal.h"
#include "rollout/dialogue.h"
#include "train/facts/machine.h"
#include "train/opening/open_model.h"

namespace hone::commands {

namespace {

using base::Json;

constexpr int kLeftByInterrupt = 130;

std::atomic<bool> answer_stopped = false;

void on_interrupt(int) {
  answer_stopped = true;
}

// Ctrl-C is a flag here: poll() returns, an answer stops after its token. Asked for each time again, since
// the second one within an answer ends the program, as by default.
void catch_interrupts() {
  answer_stopped = false;
  struct sigaction action = {};
  action.sa_handler = &on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, nullptr);
}

enum class Read { kLine, kEnd, kInterrupted };

// Lines of standard input. A stream would not see that a signal came.
class Lines {
 public:
  Read next(std::string& line) {
    while (!take(line)) {
      if (ended_) return Read::kEnd;
      if (answer_stopped) {
        held_.clear();
        return Read::kInterrupted;
      }
      // A signal may come just before poll(), which would then wait: so the flag is looked at ten times a
      // second.
      pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
      if (poll(&input, 1, 100) > 0) fill();
    }
    return Read::kLine;
  }

 private:
  bool take(std::string& line) {
    const std::size_t end = held_.find('\n');
    if (end == std::string::npos && (!ended_ || held_.empty())) return false;
    line = held_.substr(0, end);
    held_.erase(0, end == std::string::npos ? end : end + 1);
    if (line.ends_with('\r')) line.pop_back();
    return true;
  }

  void fill() {
    std::array<char, 4096> buffer;
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count > 0) held_.append(buffer.data(), static_cast<std::size_t>(count));
    ended_ = count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN);
  }

  std::string held_;
  bool ended_ = false;
};

void require_utf8(const std::string& message) {
  try {
    (void)Json(message).dump();  // strict, unlike dump_json
  } catch (const Json::type_error&) {
    throw base::UserError({.where = "hone chat",
                           .expected = "messages in UTF-8",
                           .found = "other bytes",
                           .cause = "the terminal or the file uses another encoding",
                           .fix = "convert it, as with iconv -t UTF-8"});
  }
}

class Chat {
 public:
  // `pool`: null without tools.
  Chat(const config::ChatPlan& plan, train::OpenedText text, std::unique_ptr<tools::ToolPool> pool)
      : plan_(plan),
        text_(std::move(text)),
        opened_(open_model(plan)),
        options_(generate_options(plan, opened_.model->config(), text_.tokenizer)),
        dialogue_(*opened_.model, options_.drafts),
        typed_(isatty(STDIN_FILENO) == 1) {
    options_.logprobs = false;
    stop_at_turn_end(options_, text_, opened_.model->config());
    if (pool != nullptr) {
      tools_ = std::make_unique<ChatTools>(std::move(pool), text_, plan.model_name_or_path,
                                           template_variables(plan), options_.stop_ids);
      print_notes(tools_->notes());
    }
    reset();
  }

  int run() {
    if (typed_) {
      std::cerr << "/help lists the commands, /exit leaves, Ctrl-C stops an answer\n";
      if (opened_.adapters) list_adapters();
    }
    std::string line;
    for (;;) {
      catch_interrupts();
      if (typed_) std::cerr << "> " << std::flush;
      const Read read = lines_.next(line);
      if (read == Read::kInterrupted && !typed_) return kLeftByInterrupt;
      if (read == Read::kEnd || read == Read::kInterrupted) {
        if (typed_) std::cerr << '\n';
        if (read == Read::kEnd) return 0;
        continue;
      }
      if (line.find_first_not_of(" \t") == std::string::npos) continue;
      if (line[0] == '/') {
        if (command(line)) return 0;
        continue;
      }
      talk(line);
      if (!std::cout) return 0;  // nobody listens; commands::run says so
    }
  }

 private:
  void reset() {
    messages_ = Json::array();
    if (!plan_.system_prompt.empty()) add("system", plan_.system_prompt);
    dialogue_.reset();
    kept_.clear();
  }

  void add(const char* role, const std::string& content) {
    messages_.push_back({{"role", role}, {"content", content}});
  }

  // Whether to leave. A mistake ends a pipe; in a conversation it is told.
  bool command(const std::string& line) {
    try {
      return obey(line.substr(0, line.find_last_not_of(" \t") + 1));
    } catch (const base::UserError& error) {
      if (!typed_) throw;
      tell(error);
      return false;
    }
  }

  bool obey(const std::string& words) {
    const std::size_t end = words.find_first_of(" \t");
    const std::string word = words.substr(0, end);
    if (words == "/exit") return true;
    if (words == "/reset") {
      reset();
    } else if (word == "/adapter" || words == "/adapters") {
      if (!opened_.adapters) throw_no_adapters(words);
      if (end != std::string::npos) switch_to(words.substr(words.find_first_not_of(" \t", end)));
      if (end == std::string::npos || typed_) list_adapters();
    } else if (words == "/help") {
      std::cerr << help();
    } else {
      tell(unknown_command(words));  // a slip of the fingers ends nothing, in a pipe neither
    }
    return false;
  }

  std::string help() const {
    std::string out =
        "/reset          starts again\n"
        "/exit, Ctrl-D   leaves\n"
        "/help           this list\n";
    if (opened_.adapters) {
      out +=
          "/adapters       lists the adapters\n"
          "/adapter NAME   switches to one; /adapter none: the model without one\n";
    }
    return out +
           "Ctrl-C          stops an answer\nAll else goes to the model; a space before a slash does too.\n";
  }

  // The conversation stays; its keys and values are of another model now.
  void switch_to(const std::string& name) {
    if (name == "none") {
      opened_.adapters->deactivate();
    } else {
      opened_.adapters->activate(name);
    }
    dialogue_.reset();
  }

  // The one that is on has a star.
  void list_adapters() const {
    const std::string& active = opened_.adapters->active();
    const auto row = [&](const std::string& name, const std::string& what) {
      const bool on = name == (active.empty() ? "none" : active);
      std::cerr << (on ? "* " : "  ") << name << "  " << what << '\n';
    };
    for (const config::NamedAdapter& one : plan_.adapters) row(one.name, one.folder);
    row("none", "only the model; /adapter NAME switches");
  }

  [[noreturn]] static void throw_no_adapters(const std::string& words) {
    throw base::UserError({.where = "hone chat",
                           .expected = "adapters to switch between",
                           .found = "'" + words + "', and none were given",
                           .cause = {},
                           .fix = "hone chat MODEL --adapters NAME=FOLDER NAME=FOLDER"});
  }

  base::UserError unknown_command(const std::string& words) const {
    std::vector<std::string> known = {"/help", "/reset", "/exit"};
    if (opened_.adapters) known.insert(known.end(), {"/adapter", "/adapters"});
    return base::UserError(
        {.where = "hone chat",
         .expected = "a command that /help lists, or a message that begins with another letter",
         .found = "'" + words + "'." + base::did_you_mean(words, known),
         .cause = {},
         .fix = "write a space before the slash to send it to the model"});
  }

  static void tell(const base::UserError& error) {
    std::cerr << "hone: " << report::visible_controls(error.what()) << '\n';
  }

  // A mistake ends a pipe; in a conversation it is told, and the message is as if never sent.
  void talk(const std::string& message) {
    const Json before = messages_;
    try {
      require_utf8(message);
      add("user", message);
      add("assistant", answer());
    } catch (const base::UserError& error) {
      if (!typed_) throw;
      tell(error);
      messages_ = before;
    }
  }

  std::vector<std::int32_t> conversation() const {
    if (tools_ != nullptr && !kept_.empty()) {  // what was drawn is not tokenized again
      if (const auto more = tools_->behind(messages_, kept_.back())) {
        std::vector<std::int32_t> out = kept_;
        out.insert(out.end(), more->begin(), more->end());
        return out;
      }
    }
    return text::tokenize_chat(text_.tokenizer, tools_ ? tools_->chat() : *text_.chat_template,
                               {.messages = messages_,
                                .tools = tools_ ? tools_->schemas() : Json(),
                                .template_kwargs = template_variables(plan_),
                                .add_generation_prompt = true})
        .ids;
  }

  void show(const std::string& piece) const { std::cout << report::visible_controls(piece) << std::flush; }

  struct Turn {
    std::string said;
    std::vector<std::int32_t> ids;
    bool is_whole = false;  // the model ended it
  };

  // With tools, what the model says after its last call; the turns before are in messages_ then.
  std::string answer() {
    std::vector<std::int32_t> prompt = conversation();
    kept_.clear();
    for (;;) {
      const Turn turn = sample(prompt);
      if (tools_ == nullptr || !turn.is_whole) return turn.said;
      const tools::Turn read = tools_->read(prompt, turn.ids);
      if (read.calls.empty()) {
        kept_ = std::move(prompt);
        kept_.insert(kept_.end(), turn.ids.begin(), turn.ids.end());
        return turn.said;
      }
      const ChatTools::Results results =
          tools_->run(read, turn.ids.back(), [this](const std::string& line) { show(line + "\n"); });
      print_notes(results.notes);
      messages_.insert(messages_.end(), results.messages.begin(), results.messages.end());
      prompt.insert(prompt.end(), turn.ids.begin(), turn.ids.end());
      prompt.insert(prompt.end(), results.suffix.begin(), results.suffix.end());
      if (!answer_stopped && std::cout) continue;
      if (typed_) std::cerr << "(stopped)\n";
      return "";
    }
  }

  Turn sample(const std::vector<std::int32_t>& prompt) {
    rollout::GenerateOptions options = options_;
    options.max_new_tokens = room_for_answer(prompt.size());
    TextStream stream(text_.tokenizer);
    std::string said;
    const auto say = [&](const std::string& piece) {
      said += piece;
      show(piece);
    };
    const rollout::Completion completion =
        dialogue_.answer(prompt, turn_++, options, [&](std::span<const std::int32_t> ids) {
          say(stream.next(ids));
          return !answer_stopped && static_cast<bool>(std::cout);
        });
    say(stream.rest(completion.ids));
    std::cout << std::endl;
    if (completion.finish_reason == rollout::FinishReason::kCancelled && typed_) std::cerr << "(stopped)\n";
    if (completion.finish_reason == rollout::FinishReason::kLength) {
      print_notes({options.max_new_tokens < plan_.max_new_tokens
                       ? "the answer ends at the model's last position; /reset starts again"
                       : "the answer ends at max_new_tokens " + std::to_string(plan_.max_new_tokens)});
    }
    const bool is_whole = completion.finish_reason == rollout::FinishReason::kStopToken;
    return {.said = std::move(said), .ids = completion.ids, .is_whole = is_whole};
  }

  // max_new_tokens, or what the model's positions leave.
  std::int64_t room_for_answer(std::size_t prompt) const {
    const std::int64_t most = model::longest_generated(opened_.model->config());
    const std::int64_t left = most - static_cast<std::int64_t>(prompt);
    if (left > 0) return std::min(left, plan_.max_new_tokens);
    throw base::UserError({.where = "the conversation",
                           .expected = "fewer than the model's " + std::to_string(most) + " positions",
                           .found = base::counted(static_cast<std::int64_t>(prompt), "token"),
                           .fix = "/reset starts again"});
  }

  const config::ChatPlan& plan_;
  train::OpenedText text_;
  OpenedModel opened_;
  rollout::GenerateOptions options_;
  rollout::Dialogue dialogue_;
  std::unique_ptr<ChatTools> tools_;  // null: none
  bool typed_;                        // standard input is a terminal
  Lines lines_;
  Json messages_;
  std::vector<std::int32_t> kept_;  // ids of messages_, with tools, where the model ended its last turn
  std::uint64_t turn_ = 0;
};

}  // namespace

int chat(const std::vector<std::string>& arguments) {
  config::ChatPlan plan = with_downloads([&] { return config::parse_chat(arguments); });
  place_and_tell(plan.device, plan.notes);
  print_notes(plan.notes);
  at::set_num_threads(static_cast<int>(train::threads_or_default(plan.threads)));
  train::OpenedText text = train::open_text(open_source(plan)->tokenizer_path(), plan.chat_template_path);
  print_notes(text.tokenizer.notes());
  if (text.chat_template == nullptr) {
    throw base::UserError({.where = "hone chat",
                           .expected = "a tokenizer with a chat template",
                           .found = plan.model_name_or_path + " has none",
                           .cause = "a base model that was never tuned for conversation",
                           .fix = "name a template with --chat_template_path, or use hone generate"});
  }
  std::unique_ptr<tools::ToolPool> pool;
  if (!plan.tools.empty()) pool = std::make_unique<tools::ToolPool>(tools::PoolOptions{.tools = plan.tools});
  return Chat(plan, std::move(text), std::move(pool)).run();
}

}  // namespace hone::commands
