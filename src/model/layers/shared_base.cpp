#include "model/layers/shared_base.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "base/error.h"
#include "ops/machine/device_memory.h"

namespace hone::model {

struct SharedBase::Header {
  std::uint64_t magic = 0, token = 0;
  std::atomic<std::uint64_t> placed;  // tensors that are in the file
};

namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr std::uint64_t kMagic = 0x3165736162656E68;  // "hnebase1"
constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kRecord = 64;  // bytes before a tensor's own, which keeps them aligned

struct Record {
  std::uint64_t index = 0, bytes = 0;
};

std::string reason(const char* call) {
  return std::string(call) + ": " + std::strerror(errno);
}

bool write_all(int file, const void* bytes, std::size_t size, std::uint64_t place) {
  const auto* from = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t done = pwrite(file, from, size, static_cast<off_t>(place));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    from += done;
    size -= static_cast<std::size_t>(done);
    place += static_cast<std::uint64_t>(done);
  }
  return true;
}

template <typename T>
bool read_at(int file, T& out, std::uint64_t place) {
  return pread(file, &out, sizeof out, static_cast<off_t>(place)) == static_cast<ssize_t>(sizeof out);
}

// Part of the file in this process's memory, for as long as a tensor has it.
struct Mapping {
  Mapping(void* at, std::size_t length) : begin(at), size(length) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { munmap(begin, size); }
  void* begin;
  std::size_t size;
};

void unmap(void* context) {
  delete static_cast<Mapping*>(context);
}

// "process file token"
struct Address {
  std::uint64_t process = 0, file = 0, token = 0;
};

bool read_address(const std::string& text, Address& out) {
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::uint64_t* const number : {&out.process, &out.file, &out.token}) {
    while (at < end && *at == ' ') ++at;
    const auto [stop, error] = std::from_chars(at, end, *number);
    if (error != std::errc()) return false;
    at = stop;
  }
  return at == end;
}

struct Token {
  std::uint64_t magic = 0, token = 0;
};

}  // namespace

int SharedBase::make() {
  const int file = memfd_create("hone-base", MFD_CLOEXEC);
  if (file < 0) return -1;
  std::random_device random;
  const Token token{.magic = kMagic, .token = (std::uint64_t{random()} << 32) | random()};
  if (ftruncate(file, kPage) == 0 && write_all(file, &token, sizeof token, 0) && flock(file, LOCK_EX) == 0)
    return file;
  const int error = errno;
  close(file);
  errno = error;
  return -1;
}

std::string SharedBase::address_of(int descriptor) {
  Token token;
  base::require(read_at(descriptor, token, 0), "model::SharedBase", "a file of make()");
  return std::to_string(getpid()) + " " + std::to_string(descriptor) + " " + std::to_string(token.token);
}

int SharedBase::open(const std::string& address) {
  Address asked;
  if (!read_address(address, asked)) {
    errno = EINVAL;
    return -1;
  }
  const std::string path = "/proc/" + std::to_string(asked.process) + "/fd/" + std::to_string(asked.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return -1;
  Token token;
  if (read_at(file, token, 0) && token.magic == kMagic && token.token == asked.token) return file;
  close(file);
  errno = ESTALE;  // the process of this number is another one here
  return -1;
}

SharedBase::SharedBase(int descriptor, Part part, milliseconds patience)
    : descriptor_(descriptor), part_(part), patience_(patience), place_(kPage) {
  void* const page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (page == MAP_FAILED) {
    stop(reason("mmap"));
    return;
  }
  header_ = static_cast<Header*>(page);
}

SharedBase::~SharedBase() {
  if (header_ != nullptr) munmap(header_, kPage);
  let_go();
}

// The mappings hold the lock too, where it is not given up.
void SharedBase::let_go() {
  if (descriptor_ < 0) return;
  flock(descriptor_, LOCK_UN);
  close(descriptor_);
  descriptor_ = -1;
}

bool SharedBase::stop(std::string why) {
  stopped_ = std::move(why);
  let_go();
  return false;
}

void SharedBase::share(const at::Tensor& tensor) {
  if (descriptor_ < 0 || !tensor.defined() || !ops::is_host(tensor.device())) return;
  const at::Storage& storage = tensor.storage();
  const std::size_t size = storage.nbytes();
  if (size < kLeast || mapped_.contains(storage.data())) return;
  if (part_ == Part::kLeads ? !put(storage.data(), size) : !wait_for_leader()) return;
  Record record;
  if (!read_at(descriptor_, record, place_)) return void(stop(reason("pread")));
  if (record.index != index_ || record.bytes != size) {
    differs_ = "matrix " + std::to_string(index_) + " has " + std::to_string(size) + " bytes, not " +
               std::to_string(record.bytes);
    return void(stop("it " + differs_));
  }
  const std::size_t length = kRecord + size;
  void* const begin = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor_,
                           static_cast<off_t>(place_));
  if (begin == MAP_FAILED) return void(stop(reason("mmap")));
  auto mapping = std::make_unique<Mapping>(begin, length);
  void* const bytes = static_cast<char*>(begin) + kRecord;
  // Of the leader too: a page that it has read counts in its resident memory, as the memory plan has it.
  if (std::memcmp(bytes, storage.data(), size) != 0) {
    differs_ =
        "matrix " + std::to_string(index_) + " of " + std::to_string(size) + " bytes has other numbers";
    return void(stop("it " + differs_));
  }
  storage.set_data_ptr_noswap(at::DataPtr(bytes, mapping.release(), &unmap, at::kCPU));
  mapped_.insert(bytes);
  bytes_ += static_cast<std::int64_t>(size);
  place_ = (place_ + length + kPage - 1) / kPage * kPage;
  ++index_;
}

bool SharedBase::put(const void* bytes, std::size_t size) {
  const Record record{.index = index_, .bytes = size};
  const bool whole = write_all(descriptor_, bytes, size, place_ + kRecord) &&
                     write_all(descriptor_, &record, sizeof record, place_);
  if (!whole) return stop(reason("write"));
  header_->placed.store(index_ + 1, std::memory_order_release);
  return true;
}

bool SharedBase::wait_for_leader() {
  constexpr milliseconds kLongest{5};
  const auto is_there = [&] { return header_->placed.load(std::memory_order_acquire) > index_; };
  const auto end = SteadyClock::now() + patience_;
  for (std::chrono::microseconds pause{50}; !is_there();) {
    const bool leader_ended = flock(descriptor_, LOCK_SH | LOCK_NB) == 0;
    if (is_there()) return true;
    if (leader_ended) return stop("the first process of the host shares no more");
    if (SteadyClock::now() > end) return stop("the first process of the host did not come in time");
    std::this_thread::sleep_for(pause);
    pause = std::min<std::chrono::microseconds>(2 * pause, kLongest);
  }
  return true;
}

void SharedBase::share(const ops::Weight& weight) {
  for (const auto& [part, memory] : weight.memory()) share(memory);
}

void SharedBase::share(const DecoderLayer& layer) {
  for (const ops::Linear* linear : layer.linears()) share(linear->weight);
}

}  // namespace hone::model
