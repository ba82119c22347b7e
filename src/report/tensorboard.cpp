#include "report/tensorboard.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/files/crc32c.h"

namespace hone::report {

namespace {

// protobuf's wire format, the three kinds these messages use.
class Message {
 public:
  Message& varint(int field, std::uint64_t value) {
    key(field, 0);
    raw_varint(value);
    return *this;
  }
  Message& fixed64(int field, double value) {
    key(field, 1);
    append(value);
    return *this;
  }
  Message& fixed32(int field, float value) {
    key(field, 5);
    append(value);
    return *this;
  }
  Message& bytes(int field, std::string_view value) {
    key(field, 2);
    raw_varint(value.size());
    out_ += value;
    return *this;
  }
  const std::string& str() const { return out_; }

 private:
  void key(int field, int wire_type) { raw_varint(static_cast<std::uint64_t>(field << 3 | wire_type)); }
  void raw_varint(std::uint64_t value) {
    while (value > 127) {
      out_ += static_cast<char>(value | 128U);
      value >>= 7U;
    }
    out_ += static_cast<char>(value);
  }
  template <typename T>
  void append(T value) {
    std::array<char, sizeof(T)> raw{};
    std::memcpy(raw.data(), &value, sizeof(T));
    out_.append(raw.data(), raw.size());
  }
  std::string out_;
};

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::uint32_t masked_crc(std::string_view data) {
  const std::uint32_t crc = base::crc32c({reinterpret_cast<const std::byte*>(data.data()), data.size()});
  return ((crc >> 15U) | (crc << 17U)) + 0xa282ead8U;
}

template <typename T>
std::string little_endian(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

std::string event_file_name() {
  std::array<char, 64> host{};
  gethostname(host.data(), host.size() - 1);
  return "events.out.tfevents." + std::to_string(static_cast<std::int64_t>(wall_time())) + "." + host.data() +
         "." + std::to_string(getpid()) + ".0";
}

std::string event(std::int64_t step, const Message& value) {
  const Message summary = Message().bytes(1, value.str());
  return Message()
      .fixed64(1, wall_time())
      .varint(2, static_cast<std::uint64_t>(step))
      .bytes(5, summary.str())
      .str();
}

template <typename Write>
void saying_what_to_do(const Write& write) {
  try {
    write();
  } catch (const base::UserError& error) {
    base::ErrorText text = error.text();
    text.fix = "free some space, or set report_to: none, and continue with --resume_from_checkpoint true";
    throw base::UserError(std::move(text));
  }
}

}  // namespace

TensorboardWriter::TensorboardWriter(const base::fs::path& folder, std::int64_t first_step) {
  base::fs::create_directories(folder);
  path_ = folder / event_file_name();
  saying_what_to_do([this] { file_.emplace(path_); });
  record(Message().fixed64(1, wall_time()).bytes(3, "brain.Event:2").str());
  if (first_step > 0) {  // SessionLog.START, as torch's SummaryWriter(purge_step=...) writes it
    record(Message()
               .fixed64(1, wall_time())
               .varint(2, static_cast<std::uint64_t>(first_step) + 1)
               .bytes(7, Message().varint(1, 1).str())
               .str());
  }
  flush();
}

void TensorboardWriter::scalar(std::string_view tag, float value, std::int64_t step) {
  record(event(step, Message().bytes(1, tag).fixed32(2, value)));
}

void TensorboardWriter::text(std::string_view tag, std::string_view markdown, std::int64_t step) {
  const Message dim = Message().varint(1, 1);
  const Message shape = Message().bytes(2, dim.str());
  const Message tensor = Message().varint(1, 7 /* DT_STRING */).bytes(2, shape.str()).bytes(8, markdown);
  const Message plugin = Message().bytes(1, "text");
  const Message metadata = Message().bytes(1, plugin.str());
  const std::string full_tag = std::string(tag) + "/text_summary";
  record(event(step, Message().bytes(1, full_tag).bytes(9, metadata.str()).bytes(8, tensor.str())));
}

TensorboardWriter::~TensorboardWriter() {
  try {
    flush();
  } catch (const base::UserError&) {  // the last values, of a run that ends
  }
}

void TensorboardWriter::flush() {
  if (!batch_.empty()) saying_what_to_do([this] { file_->append(std::exchange(batch_, {})); });
}

void TensorboardWriter::record(const std::string& event) {
  const std::string length = little_endian<std::uint64_t>(event.size());
  batch_ += length + little_endian(masked_crc(length)) + event + little_endian(masked_crc(event));
}

std::string tensorboard_tag(std::string_view name) {
  for (const std::string_view kind : {"eval", "test"}) {
    const std::string prefix = std::string(kind) + "_";
    if (name.starts_with(prefix)) return std::string(kind) + "/" + std::string(name.substr(prefix.size()));
  }
  return "train/" + std::string(name);
}

}  // namespace hone::report
