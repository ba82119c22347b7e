// One copy of a frozen base for the processes of a host: a file in memory (memfd) that all of them map. It has no name, so
// nothing is left of it however they end, and the size of /dev/shm does not bound it.
//
// Each process reads the model by itself and shares tensor by tensor, in the same order. The leader writes a tensor's bytes to
// the file. The others wait for them and compare them with their own. Then the mapped bytes become the tensor's storage, and
// the process's own are freed: beside the file it holds no more than what it has just read. The mappings are private: a process
// that writes to such a tensor gets its own copy of the pages that it writes.
//
// The file: a page with the header; then for each tensor, from the next page on, a record and the bytes. The leader holds a lock
// (flock) on the file while it shares, so that the others see its end, also when it was killed.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <set>
#include <string>

#include "model/layers/decoder_layer.h"
#include "ops/weight.h"

namespace hone::model {

class SharedBase {
 public:
  // A new file, with the lock on it: its descriptor, or -1 with errno.
  static int make();
  // Where processes of the same user and the same namespace of processes find it, as long as this one has it open.
  static std::string address_of(int descriptor);
  // The file that address_of named: its descriptor, or -1 where it cannot be opened, or is another file.
  static int open(const std::string& address);

  enum class Part { kLeads, kFollows };
  // Takes the descriptor: of make() for the leader, of open() for the others. `patience`: how long to wait for a tensor.
  SharedBase(int descriptor, Part part, std::chrono::milliseconds patience);
  ~SharedBase();
  SharedBase(const SharedBase&) = delete;
  SharedBase& operator=(const SharedBase&) = delete;

  // The storage of the tensor, on the CPU, becomes the shared one. Left as they are: tensors below kLeast bytes, those that are
  // shared already, and all tensors after stopped().
  void share(const at::Tensor& tensor);
  void share(const ops::Weight& weight);
  void share(const DecoderLayer& layer);  // the matrices of its linears

  std::int64_t bytes() const { return bytes_; }            // of the tensors that are shared
  const std::string& stopped() const { return stopped_; }  // why no more are shared; empty: they are
  const std::string& difference() const {
    return differs_;
  }  // the tensor that is not the leader's; empty: none

  static constexpr std::size_t kLeast = std::size_t{64} << 10;

 private:
  struct Header;
  bool put(const void* bytes, std::size_t size);
  bool wait_for_leader();
  bool stop(std::string why);
  void let_go();

  int descriptor_;
  Part part_;
  std::chrono::milliseconds patience_;
  Header* header_ = nullptr;
  std::uint64_t place_ = 0;  // of the next tensor in the file
  std::uint64_t index_ = 0;  // of the next tensor
  std::set<const void*> mapped_;
  std::int64_t bytes_ = 0;
  std::string stopped_, differs_;
};

}  // namespace hone::model
