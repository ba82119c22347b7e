#include "commands/ranks/caller_link.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"
#include "commands/process/run_signals.h"
#include "report/metrics_file.h"

namespace hone::commands {

using base::Json;

namespace {

int connected(const base::fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path.string();
  const bool fits = name.size() < sizeof address.sun_path;
  if (fits) std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
  errno = ENAMETOOLONG;
  const int socket = fits ? ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
  if (socket >= 0 && ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return socket;
  const int error = errno;
  if (socket >= 0) ::close(socket);
  throw base::UserError({.where = "HONE_CALLER",
                         .expected = "the socket of the program that called hone",
                         .found = name + ": " + std::strerror(error),
                         .cause = "that program has ended, or the variable is left over",
                         .fix = "start that program again, or unset HONE_CALLER"});
}

}  // namespace

CallerLink::CallerLink(train::RunListener& inner, const base::fs::path& socket) : inner_(inner) {
  if (socket.empty()) return;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // before connecting: a caller that died earlier does not listen
  socket_ = connected(socket);
}

CallerLink::~CallerLink() {
  hang_up();
}

void CallerLink::hang_up() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void CallerLink::tell(const Json& event) {
  if (socket_ < 0) return;
  if (send_all(base::dump_json(event) + "\n")) {
    take_answer();
  } else {
    hang_up();
  }
}

bool CallerLink::send_all(const std::string& text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t count = ::send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

void CallerLink::take_answer() {
  std::array<char, 4096> bytes{};
  std::size_t end = incoming_.find('\n');
  while (end == std::string::npos) {
    const ssize_t count = ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return hang_up();
    incoming_.append(bytes.data(), static_cast<std::size_t>(count));
    end = incoming_.find('\n');
  }
  const Json answer = Json::parse(incoming_.substr(0, end), nullptr, /*allow_exceptions=*/false);
  incoming_.erase(0, end + 1);
  if (answer.is_object() && answer.value("stop", Json(false)) == Json(true)) request_stop();
}

void CallerLink::on_start(const train::StartFacts& facts) {
  inner_.on_start(facts);
  tell({{"event", "begin"},
        {"first_step", facts.first_step},
        {"total_steps", facts.total_steps},
        {"steps_per_epoch", facts.steps_per_epoch},
        {"output_dir", facts.output_dir}});
}

void CallerLink::on_verdict(const base::Verdict& verdict, std::int64_t step) {
  inner_.on_verdict(verdict, step);
}

void CallerLink::on_rollout(const train::RolloutFacts& facts) {
  inner_.on_rollout(facts);
}

void CallerLink::on_samples(const train::SampleFacts& facts) {
  inner_.on_samples(facts);
}

void CallerLink::on_step(const train::StepFacts& facts, std::int64_t total_steps) {
  inner_.on_step(facts, total_steps);
  tell({{"event", "step"},
        {"step", facts.step},
        {"epoch", facts.epoch},
        {"total_steps", total_steps},
        {"num_tokens", facts.num_tokens}});
}

void CallerLink::on_log(const train::LogRecord& record) {
  inner_.on_log(record);
  tell({{"event", "log"}, {"record", report::metrics_line(record)}});
}

void CallerLink::on_memory(const train::MemoryFacts& facts) {
  inner_.on_memory(facts);
}

void CallerLink::on_save(const std::string& folder, std::int64_t step) {
  inner_.on_save(folder, step);
  tell({{"event", "save"}, {"step", step}, {"folder", folder}});
}

void CallerLink::on_finish(const std::string& folder, bool interrupted, std::int64_t step) {
  inner_.on_finish(folder, interrupted, step);
  tell({{"event", "end"}, {"step", step}, {"folder", folder}, {"interrupted", interrupted}});
}

}  // namespace hone::commands
