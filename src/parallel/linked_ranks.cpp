#include "parallel/linked_ranks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include "parallel/fault_table.h"
#include "parallel/network.h"
#include "parallel/rank_text.h"
#include "parallel/tree_sum.h"
#include "parallel/wait_teller.h"

namespace hone::parallel {

constexpr std::size_t kInlineBytes = kAgreeValues * sizeof(std::int64_t);

// What each rank sends to each at the beginning of a collective.
struct LinkedRanks::Header {
  std::uint64_t magic = 0;
  std::int64_t number = 0, step = 0;
  std::uint64_t kind = 0;
  std::uint64_t bytes = 0;  // of the payload
  std::array<char, 64> what{};
  std::array<char, kInlineBytes> inlined{};

  std::string_view name() const { return {what.data(), strnlen(what.data(), what.size())}; }
};

namespace {

bool in_host_memory(const at::Tensor& values) {
  return values.device().type() == c10::DeviceType::CPU;
}

using Header = LinkedRanks::Header;
using Kind = LinkedRanks::Kind;

constexpr std::uint64_t kMagic = 0x31736B6E61726568;  // "heranks1"
constexpr std::int64_t kRoundElements = 4 << 20;      // of all parts together: 16 MiB of float32
constexpr std::int64_t kPieceBytes = 64 << 20;        // of one message

void require_summable(const at::Tensor& values) {
  const bool type = values.scalar_type() == at::kFloat || values.scalar_type() == at::kDouble;
  base::require(type && values.is_contiguous() && in_host_memory(values), "parallel::Ranks::sum",
                "a contiguous tensor of float32 or float64 on the CPU");
}

bool same_place(const Header& a, const Header& b) {
  const bool free_size = a.kind == static_cast<std::uint64_t>(Kind::kGather) ||
                         a.kind == static_cast<std::uint64_t>(Kind::kBroadcast);
  return a.magic == b.magic && a.number == b.number && a.step == b.step && a.kind == b.kind &&
         a.what == b.what && (free_size || a.bytes == b.bytes);
}

std::string collective_text(const Header& header) {
  return "step " + std::to_string(header.step) + ", " + std::string(header.name()) + ", number " +
         std::to_string(header.number) + ", " + std::to_string(header.bytes) + " bytes";
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

LinkedRanks::LinkedRanks(int rank, std::vector<std::string> hosts, std::unique_ptr<Link> link,
                         std::unique_ptr<LastWords> words, const LinkedOptions& options)
    : rank_(rank),
      hosts_(std::move(hosts)),
      options_(options),
      link_(std::move(link)),
      words_(std::move(words)),
      waiting_(options_.wait_told, options_.on_wait
                                       ? [this](const WaitTeller::Wait& wait) { tell_wait(wait); }
                                       : WaitTeller::Tell()) {}

LinkedRanks::~LinkedRanks() {
  leave(true);
}

// The end of this rank, well or not. After a fault the rank that keeps the board stays, so that others can read it.
void LinkedRanks::leave(bool after_fault) {
  ended_ = true;
  link_->close();
  if (waited_) return;
  waited_ = true;
  words_->done(options_.keeps_board, after_fault ? options_.linger : options_.grace);
}

// "rank 0 on host a has waited 30 s at step 5, gradients, for rank 1 on host b". The others' words say who
// has not come; where the board does not answer, nobody is named.
void LinkedRanks::tell_wait(const WaitTeller::Wait& wait) {
  constexpr std::chrono::milliseconds kBoardAnswers{1'000};
  std::string missing;
  const auto all = words_->read(kBoardAnswers);
  for (std::size_t r = 0; all && r < all->size(); ++r) {
    const Words& one = (*all)[r];
    const bool here = one.number > wait.number || (one.number == wait.number && one.inside);
    if (static_cast<int>(r) == rank_ || here) continue;
    missing += (missing.empty() ? "" : ", ") + ("rank " + std::to_string(r) + " on host ") + one.host;
    if (!one.collective.empty())
      missing += ", last seen at step " + std::to_string(one.step) + ", " + one.collective;
  }
  const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(wait.so_far).count();
  options_.on_wait(rank_where(*this) + " has waited " + std::to_string(seconds) + " s at step " +
                   std::to_string(wait.step) + ", " + wait.what + ", for " +
                   (missing.empty() ? "the others" : missing));
}

void LinkedRanks::exchange(const std::vector<Message>& messages) {
  waiting_.begin(step_, number_, what_);
  std::vector<LinkFailure> failures = link_->exchange(messages, options_.timeout);
  waiting_.end();
  if (!failures.empty()) fault(std::move(failures));
}

std::vector<LinkedRanks::Header> LinkedRanks::begin(Kind kind, std::string_view what, std::uint64_t bytes,
                                                    std::string_view inlined) {
  base::require(!ended_, "parallel::Ranks", "no collective after the end or after a fault");
  base::require(inlined.size() <= kInlineBytes, "parallel::Ranks", "small values in a header");
  what_ = what;
  ++number_;
  words_->enter(step_, what, number_);
  std::vector<Header> all(hosts_.size());
  Header& own = all[static_cast<std::size_t>(rank_)];
  own = {.magic = kMagic,
         .number = number_,
         .step = step_,
         .kind = static_cast<std::uint64_t>(kind),
         .bytes = bytes};
  std::memcpy(own.what.data(), what.data(), std::min(what.size(), own.what.size()));
  if (!inlined.empty()) std::memcpy(own.inlined.data(), inlined.data(), inlined.size());
  std::vector<Message> messages;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_) continue;
    messages.push_back({peer, std::as_bytes(std::span(&own, 1)),
                        std::as_writable_bytes(std::span(&all[static_cast<std::size_t>(peer)], 1))});
  }
  exchange(messages);
  if (!std::all_of(all.begin(), all.end(), [&](const Header& one) { return same_place(one, own); }))
    diverged(all);
  return all;
}

void LinkedRanks::end() {
  words_->leave();
}

void LinkedRanks::diverged(const std::vector<Header>& all) {
  std::vector<int> others;
  std::string found;
  for (int r = 0; r < size(); ++r) {
    const Header& one = all[static_cast<std::size_t>(r)];
    const std::string where =
        one.magic == kMagic ? collective_text(one) : "a message of another version of hone";
    found += (r == 0 ? "" : "\n          ") + ("rank " + std::to_string(r) + " on host ") +
             hosts_[static_cast<std::size_t>(r)] + ": " + where;
    if (!same_place(one, all[0])) others.push_back(r);
  }
  const base::ErrorText text{
      .where = rank_where(*this) + ", step " + std::to_string(step_) + ", " + what_,
      .expected = "every rank in the same collective, with the same size (DIST-02)",
      .found = found,
      .cause = "ranks have different data, options or builds, or a bug in hone",
      .fix = "start all ranks with the same command and files; else report this table"};
  words_->error(base::format_error(text), others, options_.grace);
  leave(true);
  throw RankFault(RankFault::Kind::kDiverged, others, text);
}

void LinkedRanks::fault(std::vector<LinkFailure> failures) {
  SeenFault seen{.rank = rank_,
                 .size = size(),
                 .hosts = hosts_,
                 .step = step_,
                 .collective = what_,
                 .failures = std::move(failures),
                 .timeout = std::chrono::duration<double>(options_.timeout).count()};
  std::vector<int> blames;
  for (const LinkFailure& one : seen.failures) blames.push_back(one.peer);
  words_->error("a rank failed", blames, options_.grace);
  link_->close();
  seen.before = words_->read(options_.grace);
  read_last_words(seen);
  seen.now = unix_seconds();
  seen.boot_now = std::chrono::duration<double>(SteadyClock::now().time_since_epoch()).count();
  seen.machine = machine_name();
  leave(true);
  throw fault_of(seen);
}

// Reads the board until it says who is to blame, or grace is over: others may be about to say why they end, and
// only a pulse tells the living from the dead on another machine.
void LinkedRanks::read_last_words(SeenFault& seen) {
  const auto end = SteadyClock::now() + options_.grace;
  for (bool clear = false; !clear && seen.before;) {
    seen.words = words_->read(options_.grace);
    if (!seen.words) return;
    seen.states.clear();
    for (const Words& words : *seen.words) seen.states.push_back(state_of(words.process));
    clear = SteadyClock::now() >= end;
    if (!clear) {
      const std::vector<int> culprits = culprits_of(seen);
      clear = std::all_of(culprits.begin(), culprits.end(), [&](int r) {
        const ProcessState state = seen.states[static_cast<std::size_t>(r)];
        return state == ProcessState::kGone || state == ProcessState::kStopped ||
               seen.words->at(static_cast<std::size_t>(r)).own_error();
      });
    }
    if (!clear) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// This rank's part of the sum, in rounds: pieces of it come from all, pieces of their parts go to them.
template <typename T>
void LinkedRanks::sum_own_part(const at::Tensor& values) {
  T* const data = values.data_ptr<T>();
  const std::int64_t count = values.numel();
  const Part own = part_of(count, rank_);
  const std::int64_t piece = std::max<std::int64_t>(kRoundElements / size(), 4096);
  const std::int64_t longest = part_of(count, 0).end;
  scratch_.resize(static_cast<std::size_t>(std::min(piece, longest) * (size() - 1)) * sizeof(T));
  T* const scratch = reinterpret_cast<T*>(scratch_.data());
  for (std::int64_t at = 0; at < longest; at += piece) {
    const auto slice = [&](int r) {  // of rank r's part in this round
      const Part part = part_of(count, r);
      return Part{std::min(part.end, part.begin + at), std::min(part.end, part.begin + at + piece)};
    };
    const std::int64_t mine = slice(rank_).end - slice(rank_).begin;
    std::vector<Message> messages;
    std::vector<T*> parts;
    T* next = scratch;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank_) {
        parts.push_back(data + own.begin + at);
        continue;
      }
      const Part theirs = slice(peer);
      messages.push_back(
          {peer,
           std::as_bytes(std::span(data + theirs.begin, static_cast<std::size_t>(theirs.end - theirs.begin))),
           std::as_writable_bytes(std::span(next, static_cast<std::size_t>(mine)))});
      parts.push_back(next);
      next += mine;
    }
    exchange(messages);
    if (mine > 0) tree_add<T>(parts, data + own.begin + at, mine);
  }
}

// Every rank's part to all.
void LinkedRanks::send_parts(std::byte* bytes, std::int64_t count, std::int64_t element) {
  const std::int64_t piece = std::max<std::int64_t>(kPieceBytes / element, 1);
  const std::int64_t longest = part_of(count, 0).end;
  for (std::int64_t at = 0; at < longest; at += piece) {
    const auto slice = [&](int r) {
      const Part part = part_of(count, r);
      const std::int64_t begin = std::min(part.end, part.begin + at),
                         end = std::min(part.end, part.begin + at + piece);
      return std::span(bytes + begin * element, static_cast<std::size_t>((end - begin) * element));
    };
    std::vector<Message> messages;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank_) messages.push_back({peer, slice(rank_), slice(peer)});
    }
    exchange(messages);
  }
}

// From rank 0, to each rank its part.
void LinkedRanks::scatter_parts(std::byte* bytes, std::int64_t count, std::int64_t element) {
  const std::int64_t piece = std::max<std::int64_t>(kPieceBytes / element, 1);
  const std::int64_t longest = part_of(count, 0).end;
  for (std::int64_t at = 0; at < longest; at += piece) {
    std::vector<Message> messages;
    for (int r = 1; r < size(); ++r) {
      const Part part = part_of(count, r);
      const std::int64_t begin = std::min(part.end, part.begin + at),
                         end = std::min(part.end, part.begin + at + piece);
      const std::span slice(bytes + begin * element, static_cast<std::size_t>((end - begin) * element));
      if (rank_ == 0) messages.push_back({r, slice, {}});
      if (rank_ == r) messages.push_back({0, {}, slice});
    }
    exchange(messages);
  }
}

void LinkedRanks::sum_part(const at::Tensor& values, std::string_view what) {
  require_summable(values);
  begin(Kind::kSumPart, what, values.nbytes());
  values.scalar_type() == at::kFloat ? sum_own_part<float>(values) : sum_own_part<double>(values);
  end();
}

void LinkedRanks::sum(const at::Tensor& values, std::string_view what) {
  require_summable(values);
  begin(Kind::kSum, what, values.nbytes());
  values.scalar_type() == at::kFloat ? sum_own_part<float>(values) : sum_own_part<double>(values);
  send_parts(static_cast<std::byte*>(values.data_ptr()), values.numel(), values.element_size());
  end();
}

void LinkedRanks::gather_parts(const at::Tensor& values, std::string_view what) {
  base::require(values.is_contiguous() && in_host_memory(values), "parallel::Ranks::gather_parts",
                "a contiguous tensor on the CPU");
  begin(Kind::kGatherParts, what, values.nbytes());
  send_parts(static_cast<std::byte*>(values.data_ptr()), values.numel(), values.element_size());
  end();
}

std::vector<std::string> LinkedRanks::gather(std::string_view bytes, std::string_view what) {
  const bool small = bytes.size() <= kInlineBytes;
  const auto headers = begin(Kind::kGather, what, bytes.size(), small ? bytes : std::string_view());
  std::vector<std::string> out(hosts_.size());
  std::vector<Message> messages;
  const auto to_send = std::as_bytes(std::span(bytes));
  for (int peer = 0; peer < size(); ++peer) {
    const Header& header = headers[static_cast<std::size_t>(peer)];
    std::string& said = out[static_cast<std::size_t>(peer)];
    if (peer == rank_) {
      said = bytes;
      continue;
    }
    said.resize(header.bytes);
    const bool theirs_small = header.bytes <= kInlineBytes;
    if (theirs_small) std::memcpy(said.data(), header.inlined.data(), header.bytes);
    Message message{peer, {}, {}};
    if (!small) message.out = to_send;
    if (!theirs_small) message.in = std::as_writable_bytes(std::span(said));
    messages.push_back(message);
  }
  exchange(messages);
  end();
  return out;
}

std::string LinkedRanks::broadcast(std::string_view bytes, std::string_view what) {
  const std::string_view own = rank_ == 0 ? bytes : std::string_view();
  const bool small = own.size() <= kInlineBytes;
  const auto headers = begin(Kind::kBroadcast, what, own.size(), small ? own : std::string_view());
  std::string out(own);
  out.resize(headers[0].bytes);
  if (headers[0].bytes <= kInlineBytes) {
    std::memcpy(out.data(), headers[0].inlined.data(), out.size());
  } else {
    auto* const data = reinterpret_cast<std::byte*>(out.data());
    const auto count = static_cast<std::int64_t>(out.size());
    scatter_parts(data, count, 1);
    send_parts(data, count, 1);
  }
  end();
  return out;
}

void LinkedRanks::broadcast(const at::Tensor& values, std::string_view what) {
  base::require(values.is_contiguous() && in_host_memory(values), "parallel::Ranks::broadcast",
                "a contiguous tensor on the CPU");
  begin(Kind::kBroadcastTensor, what, values.nbytes());
  auto* const data = static_cast<std::byte*>(values.data_ptr());
  scatter_parts(data, values.numel(), values.element_size());
  send_parts(data, values.numel(), values.element_size());
  end();
}

Agreed LinkedRanks::agree(std::span<const std::int64_t> values, std::string_view what) {
  base::require(values.size() <= kAgreeValues, "parallel::Ranks::agree", "at most kAgreeValues values");
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  const auto headers = begin(Kind::kAgree, what, values.size_bytes(), bytes);
  const std::vector<std::int64_t> own(values.begin(), values.end());
  Agreed agreed{own, own, own};
  for (const Header& header : headers) {
    std::array<std::int64_t, kAgreeValues> theirs{};
    std::memcpy(theirs.data(), header.inlined.data(), values.size_bytes());
    for (std::size_t i = 0; i < own.size(); ++i) {
      agreed.min[i] = std::min(agreed.min[i], theirs[i]);
      agreed.max[i] = std::max(agreed.max[i], theirs[i]);
      agreed.any[i] |= theirs[i];
    }
  }
  end();
  return agreed;
}

void LinkedRanks::barrier(std::string_view what) {
  begin(Kind::kBarrier, what, 0);
  end();
}

void LinkedRanks::last_words(std::string_view error) noexcept {
  try {
    if (ended_) return;
    words_->error(error, {}, options_.grace);
    leave(true);
  } catch (const std::exception&) {
    ended_ = true;  // nobody is left to be told
  }
}

void LinkedRanks::finish() {
  barrier("end of the run");
  leave(false);
}

}  // namespace hone::parallel
