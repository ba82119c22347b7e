// This keeps what an examination found of the parts that run the model, for the next run of the same plan,
// model, data and build: the examination then takes two seconds. Only where nothing failed; never of a
// resumed run, whose adapter is another.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "doctor/exam_part.h"
#include "train/opening/run_view.h"

namespace hone::doctor {

class ExamCache {
 public:
  // `folder` empty, or a run that is resumed, goes on from an adapter, or has tools of a package or of the program that called hone, which may have
  // changed unseen: nothing is kept. `program`: hone itself.
  ExamCache(const base::fs::path& folder, const base::fs::path& program, const train::RunView& run);

  // The part as it was found before; empty: not known.
  std::optional<ExamPart> find(const std::string& name) const;
  void add(const ExamPart& part);
  // Writes what was added; errors are ignored. The folder keeps the newest 32 examinations.
  void write() const;

 private:
  base::fs::path path_;
  std::vector<ExamPart> known_, added_;
};

}  // namespace hone::doctor
