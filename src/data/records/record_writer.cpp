#include "data/records/record_writer.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/files/crc32c.h"
#include "base/numeric.h"
#include "data/files/scratch_file.h"
#include "data/records/record_file.h"

namespace hone::data {

namespace fs = base::fs;

namespace {

constexpr std::size_t kBuffer = std::size_t{4} << 20;  // bytes that a file gets at a time

template <typename T>
std::span<const std::byte> bytes_of(const T& values) {
  return std::as_bytes(std::span(values));
}

std::string no_room(const fs::path& folder) {
  return "the tokens of a large data set are kept in a file in " + folder.string() +
         "; make room there, or name another folder with XDG_CACHE_HOME or TMPDIR";
}

}  // namespace

// Where the file's bytes go.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;
  virtual base::MappedFile commit() = 0;
};

namespace {

class KeptSink final : public ByteSink {
 public:
  explicit KeptSink(fs::path path) : path_(made(std::move(path))), file_(path_) {}
  void write(std::span<const std::byte> bytes) override { file_.write(bytes); }
  base::MappedFile commit() override {
    file_.commit();
    return base::MappedFile::open(path_);
  }

 private:
  static fs::path made(fs::path path) {
    std::error_code ignored;
    fs::create_directories(path.parent_path(), ignored);  // the writer says what is wrong
    return path;
  }

  fs::path path_;
  base::FileWriter file_;
};

class ScratchSink final : public ByteSink {
 public:
  void write(std::span<const std::byte> bytes) override { file_.write(bytes); }
  base::MappedFile commit() override { return file_.map(); }

 private:
  ScratchFile file_;
};

}  // namespace

RecordWriter::RecordWriter(RecordPlace place) : place_(std::move(place)) {}
RecordWriter::~RecordWriter() = default;

void RecordWriter::add(const RecordView& record) {
  base::require(record.ids.size() == record.supervised.size(), "data::RecordWriter", "one flag a token");
  const std::size_t size = record.ids.size();
  const bool own_labels = !record.labels.empty();
  base::require(!own_labels || record.labels.size() == size, "data::RecordWriter", "one label a token");
  RecordEntry entry = {.row = record.row,
                       .sequences = base::narrow<std::uint16_t>(std::ssize(record.sequences)),
                       .says = own_labels ? kOwnLabels : std::uint16_t{0}};
  if (record.margin) entry.says |= kMargin;
  if (record.desirable) entry.says |= kMarked;
  if (record.desirable.value_or(false)) entry.says |= kDesirable;
  const std::size_t bytes = head_bytes(entry) + token_bytes(entry) * size, zeros = padding(bytes, 4);
  if (record.margin) put(std::as_bytes(std::span(&*record.margin, 1)));
  put(std::as_bytes(record.sequences));
  put(std::as_bytes(record.ids));
  put(std::as_bytes(record.labels));
  put(std::as_bytes(record.supervised));
  constexpr std::array<std::byte, 4> kZeros{};
  put(std::span(kZeros).first(zeros));
  bytes_ += static_cast<std::int64_t>(bytes + zeros);
  tokens_ += static_cast<std::int64_t>(size);
  const auto flags = record.supervised.subspan(size > 0 ? 1 : 0);
  entry.end = bytes_;
  entry.scored = static_cast<std::int32_t>(std::ssize(flags) - std::count(flags.begin(), flags.end(), 0));
  entries_.push_back(entry);
  if (sink_ == nullptr && buffer_.size() > place_.most_memory) spill();
  if (sink_ != nullptr && buffer_.size() >= kBuffer) flush();
}

void RecordWriter::put(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void RecordWriter::flush() {
  crc_ = base::crc32c(buffer_, crc_);
  try {
    sink_->write(buffer_);
  } catch (const base::UserError& error) {
    base::ErrorText text = error.text();
    text.fix = no_room(place_.kept.empty() ? fs::temp_directory_path() : place_.kept.parent_path());
    throw base::UserError(text);
  }
  buffer_.clear();
}

// From here on the bytes are in a file.
void RecordWriter::spill() {
  if (!place_.kept.empty()) {
    try {
      sink_ = std::make_unique<KeptSink>(place_.kept);
    } catch (const base::UserError&) {  // no right to write, or another process makes the same file
      place_.kept.clear();
    }
  }
  if (sink_ == nullptr) sink_ = std::make_unique<ScratchSink>();
  const auto magic = std::as_bytes(std::span(kTokenMagic));
  buffer_.insert(buffer_.begin(), magic.begin(), magic.end());
  flush();
  buffer_.shrink_to_fit();
}

// What stands behind the records, and all of it to the file.
void RecordWriter::put_end(std::string_view facts) {
  const auto size = static_cast<std::size_t>(bytes_);
  constexpr std::array<std::byte, 8> kZeros{};
  put(std::span(kZeros).first(padding(size, 8)));
  put(bytes_of(entries_));
  put(bytes_of(place_.key));
  put(std::as_bytes(std::span(facts)));
  TokenFooter footer = {.bytes = size,
                        .records = entries_.size(),
                        .tokens = static_cast<std::uint64_t>(tokens_),
                        .key = static_cast<std::uint32_t>(place_.key.size()),
                        .facts = static_cast<std::uint32_t>(facts.size())};
  const auto bytes = std::as_bytes(std::span(&footer, 1));
  put(bytes.first(bytes.size() - sizeof(footer.crc)));
  flush();
  put(std::as_bytes(std::span(&crc_, 1)));
  flush();
}

Records RecordWriter::in_memory(std::string_view facts) {
  auto source = std::make_shared<Records::Source>();
  source->held = buffer_;
  source->held_entries = entries_;
  source->bytes = source->held;
  source->entries = source->held_entries;
  if (!place_.kept.empty() && tokens_ >= place_.least_tokens) {
    try {
      sink_ = std::make_unique<KeptSink>(place_.kept);
      const auto magic = std::as_bytes(std::span(kTokenMagic));
      buffer_.insert(buffer_.begin(), magic.begin(), magic.end());
      put_end(facts);
      sink_->commit();
      kept_ = true;
    } catch (const base::UserError&) {  // the run needs it not
    }
  }
  return Records(std::shared_ptr<const Records::Source>(std::move(source)));
}

Records RecordWriter::finish(std::string_view facts) {
  if (sink_ == nullptr) return in_memory(facts);
  put_end(facts);
  auto source = std::make_shared<Records::Source>();
  source->file = sink_->commit();
  kept_ = !place_.kept.empty();
  const std::span<const std::byte> file = source->file->bytes().subspan(kTokenMagic.size());
  const auto size = static_cast<std::size_t>(bytes_);
  source->bytes = file.first(size);
  source->entries = {reinterpret_cast<const RecordEntry*>(file.data() + size + padding(size, 8)),
                     entries_.size()};
  entries_ = {};
  return Records(std::shared_ptr<const Records::Source>(std::move(source)));
}

}  // namespace hone::data
