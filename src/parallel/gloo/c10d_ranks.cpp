#include "parallel/gloo/c10d_ranks.h"

#define USE_C10D_GLOO 1
#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "parallel/linked_ranks.h"
#include "parallel/network.h"
#include "parallel/pack.h"
#include "parallel/rank_text.h"

// Of torch's logging: what it would print beside our own errors.
C10_DECLARE_int(caffe2_log_level);

namespace hone::parallel {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kNoWait{1};
constexpr milliseconds kLook{500};
constexpr milliseconds kMargin{2000};  // torch reports a time-out itself, a little later

std::string text_of(const std::exception& error) {
  const auto* const torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

void silence_torch() {
  constexpr int kFatal = 3;
  FLAGS_caffe2_log_level = kFatal;
}

// work() in a thread of its own: its result, or nothing when it takes longer than `limit` (the thread is then left
// behind). Rethrows what it throws.
template <typename Work>
auto within(milliseconds limit, Work work) -> std::optional<decltype(work())> {
  auto promise = std::make_shared<std::promise<decltype(work())>>();
  auto future = promise->get_future();
  std::thread([promise, work = std::move(work)] {
    try {
      promise->set_value(work());
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  }).detach();
  if (future.wait_for(limit) != std::future_status::ready) return std::nullopt;
  return future.get();
}

milliseconds left_until(SteadyClock::time_point end) {
  return std::max(kNoWait, std::chrono::duration_cast<milliseconds>(end - SteadyClock::now()));
}

class GlooLink final : public Link {
 public:
  GlooLink(c10::intrusive_ptr<c10d::ProcessGroupGloo> group) : group_(std::move(group)) {}

  std::vector<LinkFailure> exchange(std::span<const Message> messages, milliseconds timeout) override {
    const auto end = SteadyClock::now() + timeout;
    std::vector<Posted> posted;
    posted.reserve(2 * messages.size());
    for (const Message& one : messages) {
      if (!one.in.empty()) post(posted, one.peer, one.in, false);
    }
    for (const Message& one : messages) {
      // Gloo's buffers are not const; a sent one is only read.
      const std::span out(const_cast<std::byte*>(one.out.data()), one.out.size());
      if (!out.empty()) post(posted, one.peer, out, true);
    }
    std::vector<LinkFailure> failures;
    for (Posted& one : posted) {
      const auto limit = left_until(end);
      if (one.failure.empty()) wait(one, limit);
      if (one.failure.empty()) continue;
      const bool known = std::any_of(failures.begin(), failures.end(),
                                     [&](const LinkFailure& failure) { return failure.peer == one.peer; });
      if (!known) failures.push_back({one.peer, one.timed_out, one.failure});
    }
    std::sort(failures.begin(), failures.end(),
              [](const LinkFailure& a, const LinkFailure& b) { return a.peer < b.peer; });
    return failures;
  }

  void close() override { group_.reset(); }

 private:
  struct Posted {
    int peer;
    at::Tensor view;
    c10::intrusive_ptr<c10d::Work> work;
    std::string failure;
    bool timed_out = false;
  };

  void post(std::vector<Posted>& posted, int peer, std::span<std::byte> bytes, bool send) {
    constexpr int kTag = 1;  // messages between two ranks arrive in the order in which they were sent
    Posted one{.peer = peer,
               .view = at::from_blob(bytes.data(), {static_cast<std::int64_t>(bytes.size())}, at::kByte)};
    std::vector<at::Tensor> tensors = {one.view};
    try {
      one.work = send ? group_->send(tensors, peer, kTag) : group_->recv(tensors, peer, kTag);
    } catch (const std::exception& error) {
      one.failure = text_of(error);
    }
    posted.push_back(std::move(one));
  }

  static void wait(Posted& one, milliseconds limit) {
    const auto end = SteadyClock::now() + limit;
    try {
      one.work->wait(limit);
    } catch (const std::exception& error) {
      one.failure = text_of(error);
      // After one time-out Gloo closes all connections: those that had not come by then are late as well.
      one.timed_out = SteadyClock::now() + kNoWait >= end || one.failure.find("timeout") != std::string::npos;
    }
  }

  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

class StoreBoard final : public Board {
 public:
  explicit StoreBoard(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}
  void set(const std::string& key, const std::string& value) override {
    store_->set(key, std::vector<std::uint8_t>(value.begin(), value.end()));
  }
  std::vector<std::string> get(const std::vector<std::string>& keys) override {
    std::vector<std::string> out;
    for (const auto& value : store_->multiGet(keys)) out.emplace_back(value.begin(), value.end());
    return out;
  }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
};

// What a rank says of itself before the ranks know each other.
struct Arrival {
  std::string host, machine, address;
  int local_rank = -1, local_size = -1;
};

std::string pack_arrival(const Arrival& one) {
  std::string out;
  for (const std::string& text :
       {one.host, one.machine, one.address, std::to_string(one.local_rank), std::to_string(one.local_size)}) {
    append_text(out, text);
  }
  return out;
}

Arrival unpack_arrival(std::string_view bytes) {
  Arrival one;
  for (std::string* text : {&one.host, &one.machine, &one.address})
    *text = take_text(bytes, "parallel::open_ranks");
  one.local_rank = std::stoi(take_text(bytes, "parallel::open_ranks"));
  one.local_size = std::stoi(take_text(bytes, "parallel::open_ranks"));
  return one;
}

std::string where_of(const RankPlace& place) {
  return "rank " + std::to_string(place.rank) + " of " + std::to_string(place.size) + ", MASTER_ADDR " +
         place.master_addr + ", MASTER_PORT " + std::to_string(place.master_port);
}

[[noreturn]] void port_in_use(const std::string& where, const std::string& why) {
  throw base::UserError({.where = where,
                         .expected = "a free port for the ranks' store",
                         .found = why,
                         .cause = "another job, or one that has not ended yet, uses MASTER_PORT",
                         .fix = "set another MASTER_PORT on all ranks, or end that job"});
}

c10::intrusive_ptr<c10d::TCPStore> make_server(int port, const std::string& where) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.isServer = true;
  options.waitWorkers = false;
  try {
    return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  } catch (const std::exception& error) {
    const std::string why = text_of(error);
    if (why.find("EADDRINUSE") != std::string::npos || why.find("in use") != std::string::npos) {
      port_in_use(where, "port " + std::to_string(port) + " is in use on host " + host_name());
    }
    throw base::UserError({.where = where,
                           .expected = "to listen on MASTER_PORT",
                           .found = why,
                           .cause = "the port is not permitted, or the network is not there",
                           .fix = "set another MASTER_PORT on all ranks"});
  }
}

[[noreturn]] void unreachable(const RankPlace& place, const std::string& why) {
  std::string cause = "rank 0 has not started, listens on another host or port, or a firewall is between";
  std::string found = "no connection to " + place.master_addr + ":" + std::to_string(place.master_port);
  if (!resolves(place.master_addr)) {
    found = place.master_addr + " is no host that this machine can resolve";
    cause = "the name is wrong, or unknown here";
  }
  throw base::UserError({.where = where_of(place),
                         .expected = "the store of the ranks at MASTER_ADDR and MASTER_PORT",
                         .found = found + (why.empty() ? "" : " (" + why + ")"),
                         .cause = cause,
                         .fix = "check MASTER_ADDR and MASTER_PORT, and that rank 0 runs"});
}

struct OpenStore {
  c10::intrusive_ptr<c10d::TCPStore> server;  // null: another process has it
  c10::intrusive_ptr<c10d::Store> store;      // this run's keys
};

OpenStore open_store(const RankPlace& place, const RankOptions& options) {
  OpenStore out;
  if (place.rank == 0 && !place.launcher_hosts_store) {
    out.server = make_server(place.master_port, where_of(place));
  }
  c10d::TCPStoreOptions client;
  client.port = static_cast<std::uint16_t>(place.master_port);
  client.waitWorkers = false;
  client.timeout = options.start_timeout;
  const std::string host = out.server ? "127.0.0.1" : place.master_addr;
  std::optional<c10::intrusive_ptr<c10d::TCPStore>> tcp;
  try {
    tcp = within(options.start_timeout + kMargin,
                 [host, client] { return c10::make_intrusive<c10d::TCPStore>(host, client); });
  } catch (const std::exception& error) {
    unreachable(place, text_of(error));
  }
  if (!tcp) unreachable(place, {});
  const std::string prefix = "hone/" + std::to_string(place.restart);
  out.store = c10::make_intrusive<c10d::PrefixStore>(prefix, *tcp);
  return out;
}

[[noreturn]] void came_twice(const RankPlace& place, const std::string& found) {
  throw RankFault(
      RankFault::Kind::kTwice, {place.rank},
      {.where = where_of(place),
       .expected = "one job on the store, and one process for each rank",
       .found = found,
       .cause = "two jobs share MASTER_ADDR and MASTER_PORT, or a rank was restarted without the others",
       .fix = "give each job its own MASTER_PORT; restart all ranks together"});
}

// The keys of this run, with this rank's arrival among them. A launcher's store may see several runs one after the other:
// the n-th process of a rank belongs to the n-th of the others. Rank 0's own store sees one.
c10::intrusive_ptr<c10d::Store> register_rank(const c10::intrusive_ptr<c10d::Store>& store,
                                              const RankPlace& place, const Arrival& own) {
  const std::string key = std::to_string(place.rank);
  const std::int64_t run = store->add("count/" + key, 1);
  if (run > 1 && !place.launcher_hosts_store) {
    came_twice(place, "rank " + key + " has come twice: the second is on host " + own.host);
  }
  c10::intrusive_ptr<c10d::Store> keys = c10::make_intrusive<c10d::PrefixStore>(std::to_string(run), store);
  const std::string named = place.job.empty() ? "-" : place.job;
  const std::string job = keys->compareSet("job", std::string(), named);
  if (job != named)
    came_twice(place, "this is a rank of job " + named + "; the store has ranks of job " + job);
  const std::string said = pack_arrival(own);
  keys->set("here/" + key, std::vector<std::uint8_t>(said.begin(), said.end()));
  return keys;
}

std::vector<int> missing_of(c10d::Store& store, const std::vector<std::string>& keys) {
  std::vector<int> out;
  for (std::size_t r = 0; r < keys.size(); ++r) {
    if (!store.check({keys[r]})) out.push_back(static_cast<int>(r));
  }
  return out;
}

// Every rank's arrival, in order. Looks who is missing once in a while, because the store may go away with rank 0.
std::vector<Arrival> wait_for_all(c10d::Store& store, const RankPlace& place, SteadyClock::time_point end,
                                  const RankOptions& options) {
  const SteadyClock::time_point begin = SteadyClock::now();
  SteadyClock::time_point next = begin + options.wait_told;
  std::vector<std::string> keys;
  for (int r = 0; r < place.size; ++r) keys.push_back("here/" + std::to_string(r));
  std::vector<int> missing = {0};
  for (bool lost = false; !lost && SteadyClock::now() < end;) {
    try {
      store.wait(keys, std::min(left_until(end), kLook));
      std::vector<Arrival> all;
      for (const auto& bytes : store.multiGet(keys)) {
        all.push_back(unpack_arrival({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
      }
      return all;
    } catch (const std::exception&) {  // not all are here, or the store is gone
      try {
        missing = missing_of(store, keys);
        const SteadyClock::time_point now = SteadyClock::now();
        if (options.on_wait && now >= next) {
          const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - begin).count();
          options.on_wait(where_of(place) + " has waited " + std::to_string(seconds) + " s for " +
                          rank_list(missing) + " to start");
          next = now + options.wait_told;
        }
      } catch (const std::exception&) {
        lost = true;
      }
    }
  }
  throw RankFault(
      RankFault::Kind::kSilent, missing,
      {.where = where_of(place),
       .expected = "all ranks to start",
       .found = rank_list(missing) + " did not come",
       .cause = "those processes were not started, ended before, or have another MASTER_ADDR or MASTER_PORT",
       .fix = "look at what they printed; WORLD_SIZE must be the number of processes"});
}

// The address that others reach this host by: that of the way to another host of the run.
std::string own_address(const std::vector<Arrival>& all, const RankPlace& place) {
  const auto own = static_cast<std::size_t>(place.rank);
  for (const Arrival& one : all) {
    if (one.machine == all[own].machine) continue;
    const std::string address = address_towards(one.address);
    return address.empty() ? all[own].address : address;
  }
  return "127.0.0.1";  // every rank is on this host
}

void fill_local(LinkedOptions& linked, const std::vector<Arrival>& all, const RankPlace& place) {
  const auto own = static_cast<std::size_t>(place.rank);
  linked.local_rank = place.local_rank;
  linked.local_size = place.local_size;
  if (place.local_rank >= 0 && place.local_size > 0) return;
  linked.local_rank = linked.local_size = 0;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].machine != all[own].machine) continue;
    ++linked.local_size;
    if (r < own) ++linked.local_rank;
  }
}

c10::intrusive_ptr<c10d::ProcessGroupGloo> connect(const c10::intrusive_ptr<c10d::Store>& store,
                                                   const std::string& address, const RankPlace& place,
                                                   milliseconds timeout) {
  using Group = c10d::ProcessGroupGloo;
  auto options = Group::Options::create(timeout);
  options->threads = 1;  // for Gloo's own collectives, which are not used
  options->devices.push_back(place.interface.empty() ? Group::createDeviceForHostname(address)
                                                     : Group::createDeviceForInterface(place.interface));
  return c10::make_intrusive<Group>(c10::make_intrusive<c10d::PrefixStore>("gloo", store), place.rank,
                                    place.size, options);
}

std::string address_to_tell(const RankPlace& place) {
  const std::string address = address_towards(place.master_addr);
  // On the master's own host the others' name for it is the address.
  return address.empty() || is_loopback(address) ? place.master_addr : address;
}

c10::intrusive_ptr<c10d::ProcessGroupGloo> connect_within(const c10::intrusive_ptr<c10d::Store>& store,
                                                          const std::vector<Arrival>& all,
                                                          const RankPlace& place,
                                                          SteadyClock::time_point end) {
  const milliseconds limit = left_until(end);
  const std::string address = own_address(all, place);
  std::string why = "no answer in time";
  try {
    const auto group = within(limit + kMargin, [=] { return connect(store, address, place, limit); });
    if (group) return *group;
  } catch (const std::exception& error) {
    why = text_of(error);
  }
  const std::string by = place.interface.empty() ? "address " + address : "interface " + place.interface;
  throw RankFault(
      RankFault::Kind::kLost, {},
      {.where = where_of(place) + ", host " + all[static_cast<std::size_t>(place.rank)].host,
       .expected = "a connection from this rank to each other, by " + by,
       .found = why,
       .cause = "a rank ended meanwhile, a firewall is between, or the interface is the wrong one",
       .fix = "look at what the others printed; GLOO_SOCKET_IFNAME names the network interface"});
}

}  // namespace

std::unique_ptr<Ranks> open_ranks(const RankPlace& place, const RankOptions& options) {
  if (!place.several()) return std::make_unique<OneRank>(host_name());
  silence_torch();
  const auto end = SteadyClock::now() + options.start_timeout;
  const Arrival own{.host = host_name(),
                    .machine = machine_name(),
                    .address = address_to_tell(place),
                    .local_rank = place.local_rank,
                    .local_size = place.local_size};
  OpenStore open = open_store(place, options);
  const c10::intrusive_ptr<c10d::Store> store = register_rank(open.store, place, own);
  const std::vector<Arrival> all = wait_for_all(*store, place, end, options);
  LinkedOptions linked{.timeout = options.timeout,
                       .grace = options.grace,
                       .linger = options.linger,
                       .wait_told = options.wait_told,
                       .on_wait = options.on_wait};
  linked.keeps_board = open.server != nullptr;
  linked.kept = std::make_shared<c10::intrusive_ptr<c10d::TCPStore>>(std::move(open.server));
  fill_local(linked, all, place);
  std::vector<std::string> hosts;
  hosts.reserve(all.size());
  for (const Arrival& one : all) hosts.push_back(one.host);
  auto words =
      std::make_unique<LastWords>(std::make_shared<StoreBoard>(store), place.rank, place.size, own.host);
  auto link = std::make_unique<GlooLink>(connect_within(store, all, place, end));
  return std::make_unique<LinkedRanks>(place.rank, std::move(hosts), std::move(link), std::move(words),
                                       linked);
}

struct HostedStore::Impl {
  c10::intrusive_ptr<c10d::TCPStore> server;
};

HostedStore::HostedStore(int port) : impl_(std::make_unique<Impl>()) {
  silence_torch();
  impl_->server = make_server(port, "MASTER_PORT " + std::to_string(port));
}

HostedStore::~HostedStore() = default;

int HostedStore::port() const {
  return impl_->server->getPort();
}

}  // namespace hone::parallel
