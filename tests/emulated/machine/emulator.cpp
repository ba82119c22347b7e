#undef _FORTIFY_SOURCE  // its longjmp refuses to change stacks
#include "emulated/machine/emulator.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <csetjmp>
#include <csignal>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

hone::emulated::Index threadIdx, blockIdx;

namespace hone::emulated {
namespace {

constexpr int kWarp = 32, kMostThreads = 1024, kInvalidConfiguration = 9;
constexpr std::int64_t kMostBlocks = (std::int64_t{1} << 31) - 1;
constexpr std::size_t kStack = std::size_t{64} << 10, kGuard = 64, kMostShared = std::size_t{48} << 10;
constexpr unsigned char kPoison = 0xff;  // NaN of every type

enum class State { kReady, kAtBarrier, kAtShuffle, kEnded };

struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  bool is_there = false, is_made = false;
  int group = 0;
};

struct Thread {
  std::jmp_buf at{};
  State state = State::kEnded;
  std::uint32_t mask = 0;  // of the shuffle where it waits
  int words = 0;           // that it offers there
  // Of its last two shuffles: others may still read the one before.
  std::array<std::array<std::uint32_t, kMostOffered>, 2> offered{};
  unsigned shuffles = 0;
  std::vector<Copy> copies;  // that it has not waited for
  int groups = 0;            // of copies
};

struct SharedPart {
  std::size_t begin, bytes;
};

// One machine; its threads are made when first needed, and made again after one of them was stopped by a signal.
struct Machine {
  std::vector<Thread> threads;
  std::jmp_buf scheduler{};
  ucontext_t maker{};
  Thread* running = nullptr;
  void (*body)(const void*) = nullptr;
  const void* context = nullptr;
  std::string found;  // by a thread; empty: nothing
  Schedule schedule = Schedule::kInOrder;
  std::mt19937 random{1};  // NOLINT(bugprone-random-generator-seed): the same each time
  alignas(64) std::array<unsigned char, kMostShared> shared{};
  std::size_t shared_end = 0;
  std::map<const void*, SharedPart> parts;
};

Machine& machine() {
  static Machine& one = *new Machine;
  return one;
}

// ---- changing stacks. What is between setjmp and longjmp keeps no local variable.

void leave() {
  Machine& m = machine();
  if (_setjmp(m.running->at) == 0) _longjmp(m.scheduler, 1);
}

void be_a_thread() {
  Machine& m = machine();
  for (;;) {
    leave();
    m.body(m.context);
    m.running->state = State::kEnded;
    if (!m.running->copies.empty()) m.found = "a thread ends before all that it copies has come";
  }
}

// Its first run ends in be_a_thread's leave().
void make(Thread& thread) {
  Machine& m = machine();
  void* const stack =
      mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) throw std::runtime_error("no memory for the stack of an emulated thread");
  ucontext_t begun;
  getcontext(&begun);
  begun.uc_stack.ss_sp = stack;
  begun.uc_stack.ss_size = kStack;
  begun.uc_link = nullptr;
  makecontext(&begun, be_a_thread, 0);
  m.running = &thread;
  if (_setjmp(m.scheduler) == 0) swapcontext(&m.maker, &begun);
  m.running = nullptr;
}

void resume(Thread& thread) {
  Machine& m = machine();
  m.running = &thread;
  threadIdx.x = static_cast<unsigned>(&thread - m.threads.data());
  if (_setjmp(m.scheduler) == 0) _longjmp(thread.at, 1);
  m.running = nullptr;
}

// ---- what stops a thread

// The thread's stack is given up.
[[noreturn]] void stop(const char* why) {
  Machine& m = machine();
  m.found = "thread " + std::to_string(threadIdx.x) + " of block " + std::to_string(blockIdx.x) + ' ' + why;
  m.running->state = State::kEnded;
  _longjmp(m.scheduler, 1);
}

void on_signal(int number) {
  if (machine().running == nullptr) {  // not a thread's: the next one ends the program
    std::signal(number, SIG_DFL);
    return;
  }
  stop(number == SIGSEGV || number == SIGBUS
           ? "reads or writes outside of the tensors' memory"
           : "has an address that is not aligned, or an index outside of an array");
}

class Signals {
 public:
  Signals() {
    struct sigaction ours{};
    ours.sa_handler = on_signal;
    ours.sa_flags = SA_NODEFER;  // the handler is left by longjmp
    for (std::size_t i = 0; i < kNumbers.size(); ++i) sigaction(kNumbers[i], &ours, &before_[i]);
  }
  ~Signals() {
    for (std::size_t i = 0; i < kNumbers.size(); ++i) sigaction(kNumbers[i], &before_[i], nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  static constexpr std::array<int, 4> kNumbers = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP};
  std::array<struct sigaction, 4> before_{};
};

void make_copy(Copy& one) {
  constexpr std::size_t kBytes = 16;
  if (one.is_made) return;
  one.is_made = true;
  if (one.is_there) {
    std::memcpy(one.to, one.from, kBytes);
  } else {
    std::memset(one.to, 0, kBytes);
  }
}

// ---- a block

using Threads = std::vector<Thread*>;

Threads ordered(Threads threads) {
  Machine& m = machine();
  if (m.schedule == Schedule::kReversed) std::reverse(threads.begin(), threads.end());
  if (m.schedule == Schedule::kShuffled) std::shuffle(threads.begin(), threads.end(), m.random);
  return threads;
}

// Frees the warps of which all threads that the masks name have come. Whether there was one.
bool free_warps(const std::vector<Threads>& warps) {
  bool any = false;
  for (const Threads& warp : warps) {
    std::uint32_t here = 0, wanted = 0, ended = 0;
    int words = 0;
    for (std::size_t lane = 0; lane < warp.size(); ++lane) {
      const std::uint32_t bit = std::uint32_t{1} << lane;
      if (warp[lane]->state == State::kEnded) ended |= bit;
      if (warp[lane]->state != State::kAtShuffle) continue;
      here |= bit;
      wanted |= warp[lane]->mask;
      if (words != 0 && words != warp[lane]->words)
        machine().found = "threads of a warp meet in different instructions";
      words = warp[lane]->words;
    }
    if ((wanted & ended) != 0) machine().found = "a shuffle names a thread of its warp that has ended";
    if (here == 0 || wanted != here) continue;
    for (Thread* const one : warp)
      if (one->state == State::kAtShuffle) one->state = State::kReady;
    any = true;
  }
  return any;
}

bool run_ready(const Threads& threads) {
  bool any = false;
  for (Thread* const one : threads) {
    if (one->state != State::kReady) continue;
    any = true;
    resume(*one);
    if (!machine().found.empty()) break;
  }
  return any;
}

// Until all threads wait for the block or have ended; or something was found.
void run_to_barrier(const std::vector<Threads>& warps) {
  Machine& m = machine();
  std::vector<std::vector<Threads>> groups;
  if (m.schedule == Schedule::kWarpByWarp) {
    for (const Threads& warp : warps) groups.push_back({warp});
    std::shuffle(groups.begin(), groups.end(), m.random);
  } else {
    groups.push_back(warps);
  }
  for (const std::vector<Threads>& group : groups) {
    Threads all;
    for (const Threads& warp : group) all.insert(all.end(), warp.begin(), warp.end());
    bool any = true;
    while (any && m.found.empty()) {
      any = run_ready(ordered(all));
      any = m.found.empty() && (free_warps(group) || any);
    }
  }
}

void check_shared_memory() {
  Machine& m = machine();
  for (const auto& [key, part] : m.parts) {
    const auto is_poison = [&](std::size_t begin, std::size_t end) {
      return std::all_of(m.shared.begin() + static_cast<std::ptrdiff_t>(begin),
                         m.shared.begin() + static_cast<std::ptrdiff_t>(end),
                         [](unsigned char byte) { return byte == kPoison; });
    };
    if (!is_poison(part.begin - kGuard, part.begin) ||
        !is_poison(part.begin + part.bytes, part.begin + part.bytes + kGuard))
      m.found = "block " + std::to_string(blockIdx.x) + " writes beside its shared memory";
  }
}

void run_block(const std::vector<Threads>& warps) {
  Machine& m = machine();
  m.parts.clear();
  m.shared_end = 0;
  for (Thread& one : m.threads) one.state = State::kEnded;
  for (const Threads& warp : warps)
    for (Thread* const one : warp) {
      one->state = State::kReady;
      one->shuffles = 0;
      one->copies.clear();
      one->groups = 0;
    }
  for (;;) {
    run_to_barrier(warps);
    std::size_t at_barrier = 0, ended = 0, all = 0;
    for (const Threads& warp : warps)
      for (const Thread* const one : warp) {
        ++all;
        at_barrier += one->state == State::kAtBarrier ? 1 : 0;
        ended += one->state == State::kEnded ? 1 : 0;
      }
    if (m.found.empty() && ended != all && at_barrier != all)
      m.found = "threads of block " + std::to_string(blockIdx.x) + " wait for some that never come";
    if (!m.found.empty() || ended == all) break;
    for (const Threads& warp : warps)
      for (Thread* const one : warp) one->state = State::kReady;
  }
  if (m.found.empty()) check_shared_memory();
}

}  // namespace

void set_schedule(Schedule schedule, unsigned seed) {
  machine().schedule = schedule;
  machine().random.seed(seed);
}

int run(std::int64_t blocks, int threads, void (*body)(const void*), const void* context, void* /*stream*/) {
  if (blocks < 1 || blocks > kMostBlocks || threads < 1 || threads > kMostThreads)
    return kInvalidConfiguration;
  Machine& m = machine();
  const auto count = static_cast<std::size_t>(threads);
  m.body = body;
  m.context = context;
  m.found.clear();
  if (m.threads.size() < count) {  // all are made again: a context knows where its Thread lies
    m.threads = std::vector<Thread>(count);
    for (Thread& one : m.threads) make(one);
  }
  std::vector<Threads> warps((count + kWarp - 1) / kWarp);
  for (std::size_t i = 0; i < count; ++i) warps[i / kWarp].push_back(&m.threads[i]);
  const Signals signals;
  for (std::int64_t block = 0; block < blocks && m.found.empty(); ++block) {
    blockIdx.x = static_cast<unsigned>(block);
    run_block(warps);
  }
  if (m.found.empty()) return 0;
  m.threads.clear();  // some stand in the middle of a kernel
  throw std::runtime_error(m.found);
}

void wait_for_block() {
  machine().running->state = State::kAtBarrier;
  leave();
}

std::uint32_t exchanged(std::uint32_t mask, std::uint32_t bits, int distance) {
  Machine& m = machine();
  Thread& own = *m.running;
  const std::size_t lane = threadIdx.x % kWarp, first = threadIdx.x - lane;
  const std::size_t other = lane ^ static_cast<std::size_t>(distance), turn = own.shuffles++ % 2;
  if ((mask >> lane & 1U) == 0) stop("is not in the mask of its own shuffle");
  own.offered[turn][0] = bits;
  own.words = 1;
  own.mask = mask;
  own.state = State::kAtShuffle;
  leave();
  if (other >= kWarp || (mask >> other & 1U) == 0 || first + other >= m.threads.size()) return 0xffffffffU;
  return m.threads[first + other].offered[turn][0];
}

void offer(const std::uint32_t* words, int count) {
  Thread& own = *machine().running;
  std::copy(words, words + count, own.offered[own.shuffles++ % 2].begin());
  own.words = count;
  own.mask = 0xffffffffU;
  own.state = State::kAtShuffle;
  leave();
}

const std::uint32_t* offered_by(int lane) {
  Machine& m = machine();
  const std::size_t first = threadIdx.x / kWarp * kWarp;
  return m.threads[first + static_cast<std::size_t>(lane)].offered[(m.running->shuffles - 1) % 2].data();
}

void need_sixteens(const void* at) {
  constexpr std::uintptr_t kBytes = 16;
  if (reinterpret_cast<std::uintptr_t>(at) % kBytes != 0) stop("has an address that is not aligned");
}

void copy_later(void* to, const void* from, bool is_there) {
  Machine& m = machine();
  need_sixteens(to);
  if (is_there) need_sixteens(from);
  const bool at_once = m.schedule == Schedule::kInOrder || m.schedule == Schedule::kShuffled;
  Copy one = {.to = to, .from = from, .is_there = is_there, .is_made = false, .group = m.running->groups};
  if (at_once) make_copy(one);
  m.running->copies.push_back(one);
}

void end_group() {
  ++machine().running->groups;
}

void wait_for_groups(int later) {
  Thread& own = *machine().running;
  for (Copy& one : own.copies)
    if (one.group < own.groups - later) make_copy(one);
  std::erase_if(own.copies, [](const Copy& one) { return one.is_made; });
}

void* shared_memory(const void* key, std::size_t bytes) {
  Machine& m = machine();
  if (const auto found = m.parts.find(key); found != m.parts.end())
    return m.shared.data() + found->second.begin;
  const std::size_t whole = kGuard + (bytes + kGuard - 1) / kGuard * kGuard + kGuard;
  if (m.shared_end + whole > kMostShared) stop("asks for more shared memory than a block has");
  std::memset(m.shared.data() + m.shared_end, kPoison, whole);
  const SharedPart part = {m.shared_end + kGuard, bytes};
  m.shared_end += whole;
  m.parts.emplace(key, part);
  return m.shared.data() + part.begin;
}

}  // namespace hone::emulated
