#include "parallel/last_words.h"

#include <unistd.h>

#include <condition_variable>
#include <exception>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>

#include "parallel/network.h"
#include "parallel/pack.h"

namespace hone::parallel {

namespace {

constexpr std::chrono::seconds kPulse{1};

std::string word_key(std::size_t rank) {
  return "at/" + std::to_string(rank);
}

std::string first_line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// /proc/<pid>/stat from its third field on: the name before may hold anything. Empty: no such process.
std::vector<std::string> stat_fields(std::int64_t pid) {
  const std::string line = first_line_of("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream rest(line.substr(name_end + 1));
  std::vector<std::string> out;
  for (std::string field; rest >> field;) out.push_back(field);
  return out;
}

std::int64_t started_at(const std::vector<std::string>& stat) {
  constexpr std::size_t kStartTime = 19;  // field 22 of the line
  return stat.size() > kStartTime ? std::stoll(stat[kStartTime]) : 0;
}

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double boot_now() {
  return std::chrono::duration<double>(SteadyClock::now().time_since_epoch()).count();
}

}  // namespace

ProcessName this_process() {
  return {machine_name(), getpid(), started_at(stat_fields(getpid()))};
}

ProcessState state_of(const ProcessName& process) {
  static const std::string here = machine_name();
  if (process.pid == 0 || process.machine != here) return ProcessState::kUnknown;
  const std::vector<std::string> stat = stat_fields(process.pid);
  if (stat.empty() || started_at(stat) != process.started) return ProcessState::kGone;
  switch (stat[0][0]) {
    case 'Z':
    case 'X':
      return ProcessState::kGone;
    case 'T':
    case 't':
      return ProcessState::kStopped;
    default:
      return ProcessState::kRunning;
  }
}

std::string pack_words(const Words& words) {
  std::string out;
  append_text(out, words.host);
  append_text(out, words.process.machine);
  append_text(out, words.collective);
  append_text(out, words.error);
  std::string blames;
  for (const int rank : words.blames) blames += std::to_string(rank) + " ";
  append_text(out, blames);
  std::ostringstream numbers;
  numbers.precision(17);
  numbers << words.process.pid << ' ' << words.process.started << ' ' << words.step << ' ' << words.number
          << ' ' << words.pulse << ' ' << words.inside << ' ' << words.done << ' ' << words.since << ' '
          << words.since_boot;
  append_text(out, numbers.str());
  return out;
}

Words unpack_words(std::string_view bytes) {
  constexpr std::string_view kWhere = "parallel::unpack_words";
  Words words;
  words.host = take_text(bytes, kWhere);
  words.process.machine = take_text(bytes, kWhere);
  words.collective = take_text(bytes, kWhere);
  words.error = take_text(bytes, kWhere);
  std::istringstream blames(take_text(bytes, kWhere));
  for (int rank = 0; blames >> rank;) words.blames.push_back(rank);
  std::istringstream numbers(take_text(bytes, kWhere));
  numbers >> words.process.pid >> words.process.started >> words.step >> words.number >> words.pulse >>
      words.inside >> words.done >> words.since >> words.since_boot;
  return words;
}

// Owned by the object and by its thread, because the thread may outlive the object.
struct LastWords::Shared {
  std::shared_ptr<Board> board;
  std::string key;
  std::vector<std::string> keys;

  std::mutex mutex;
  std::condition_variable to_thread, from_thread;
  Words words;
  std::uint64_t said = 1, written = 0;    // versions of `words`
  std::uint64_t asked = 0, answered = 0;  // reads
  std::vector<Words> answer;
  bool stop = false, ended = false;

  bool write(std::unique_lock<std::mutex>& lock);
  bool read(std::unique_lock<std::mutex>& lock);
};

// Both give the lock back while the board works. False: the board failed.
bool LastWords::Shared::write(std::unique_lock<std::mutex>& lock) {
  const std::uint64_t version = said;
  ++words.pulse;
  words.since = unix_now() - (boot_now() - words.since_boot);
  const std::string bytes = pack_words(words);
  lock.unlock();
  bool well = true;
  try {
    board->set(key, bytes);
  } catch (const std::exception&) {
    well = false;
  }
  lock.lock();
  if (well) written = version;
  from_thread.notify_all();
  return well;
}

bool LastWords::Shared::read(std::unique_lock<std::mutex>& lock) {
  const std::uint64_t version = asked;
  lock.unlock();
  std::vector<Words> all;
  bool well = true;
  try {
    for (const std::string& bytes : board->get(keys)) all.push_back(unpack_words(bytes));
  } catch (const std::exception&) {
    well = false;
  }
  lock.lock();
  if (well) {
    answer = std::move(all);
    answered = version;
  }
  from_thread.notify_all();
  return well;
}

void LastWords::run(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  bool well = true;
  while (well && !shared->stop) {
    well = shared->write(lock);
    if (well && shared->asked > shared->answered) well = shared->read(lock);
    shared->to_thread.wait_for(lock, kPulse, [&] {
      return shared->stop || shared->said > shared->written || shared->asked > shared->answered;
    });
  }
  if (well && shared->said > shared->written) shared->write(lock);
  shared->ended = true;
  shared->from_thread.notify_all();
}

LastWords::LastWords(std::shared_ptr<Board> board, int rank, int size, std::string host)
    : shared_(std::make_shared<Shared>()) {
  shared_->board = std::move(board);
  shared_->key = word_key(static_cast<std::size_t>(rank));
  for (int r = 0; r < size; ++r) shared_->keys.push_back(word_key(static_cast<std::size_t>(r)));
  shared_->words.host = std::move(host);
  shared_->words.process = this_process();
  shared_->words.since = unix_now();
  shared_->words.since_boot = boot_now();
  shared_->board->set(shared_->key, pack_words(shared_->words));
  std::thread([shared = shared_] { run(shared); }).detach();
}

LastWords::~LastWords() {
  std::unique_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->to_thread.notify_all();
  shared_->from_thread.wait_for(lock, std::chrono::milliseconds(500), [&] { return shared_->ended; });
}

void LastWords::enter(std::int64_t step, std::string_view collective, std::int64_t number) {
  const std::lock_guard lock(shared_->mutex);
  Words& words = shared_->words;
  words.step = step;
  words.collective = collective;
  words.number = number;
  words.inside = true;
  words.since_boot = boot_now();
  ++shared_->said;
  shared_->to_thread.notify_all();
}

void LastWords::leave() {
  const std::lock_guard lock(shared_->mutex);
  shared_->words.inside = false;
  shared_->words.since_boot = boot_now();
  ++shared_->said;
  shared_->to_thread.notify_all();
}

void LastWords::error(std::string_view text, std::vector<int> blames, std::chrono::milliseconds limit) {
  std::unique_lock lock(shared_->mutex);
  shared_->words.error = text;
  shared_->words.blames = std::move(blames);
  const std::uint64_t version = ++shared_->said;
  shared_->to_thread.notify_all();
  shared_->from_thread.wait_for(lock, limit, [&] { return shared_->written >= version || shared_->ended; });
}

std::optional<std::vector<Words>> LastWords::read(std::chrono::milliseconds limit) {
  std::unique_lock lock(shared_->mutex);
  const std::uint64_t version = ++shared_->asked;
  shared_->to_thread.notify_all();
  shared_->from_thread.wait_for(lock, limit, [&] { return shared_->answered >= version || shared_->ended; });
  if (shared_->answered < version) return std::nullopt;
  return shared_->answer;
}

void LastWords::done(bool keeps_board, std::chrono::milliseconds limit) {
  const auto end = SteadyClock::now() + limit;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->words.done = true;
    const std::uint64_t version = ++shared_->said;
    shared_->to_thread.notify_all();
    shared_->from_thread.wait_for(lock, std::min<std::chrono::milliseconds>(limit, kPulse),
                                  [&] { return shared_->written >= version || shared_->ended; });
  }
  while (keeps_board && SteadyClock::now() < end) {
    const auto all = read(std::chrono::duration_cast<std::chrono::milliseconds>(end - SteadyClock::now()));
    if (!all) return;
    bool waits = false;
    for (const Words& words : *all) waits |= !words.done && state_of(words.process) != ProcessState::kGone;
    if (!waits) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace hone::parallel
