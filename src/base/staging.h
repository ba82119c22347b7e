// Staging: where files and folders are made before they get their name, and how a set of files at the top of
// a folder is replaced as one. FileWriter and StagedFolder (base/file.h) stage through these names.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "base/file.h"

namespace hone::base {

// "out/.hone-partial.x" for "out/x": hidden, and no name that a user gives. A name that would get too long
// for a file system is cut and ends in a hash.
fs::path staging_path(const fs::path& final_path);

// "out/x" for "out/.hone-partial.x"; nothing for every other name, and for one that was cut.
std::optional<fs::path> final_of_staging(const fs::path& path);

// Where a write to `path` lands: symbolic links of its last part are followed, also to what does not exist
// yet. UserError for links that lead in a circle.
fs::path resolve_links(const fs::path& path);

// create_directories, and every folder that was made is on the disk (fsync of its parent).
void create_folders(const fs::path& folder);

// Removes a folder that has to be whole or absent. It is moved into its staging folder first: from then on it
// is gone, and what a kill leaves of it StagedFolder::recover() removes. Of a symbolic link only the link
// goes. Nothing there: nothing happens. UserError while another process stages it.
void remove_whole_folder(const fs::path& folder);

// Cleans up `<final>.partial` and `<final>.hone-old`, the staging names of earlier versions of hone, as
// StagedFolder::recover() does with today's. Only for a `final_path` that hone itself named (checkpoint-N):
// such a name beside another one may be the user's.
bool recover_former_staging(const fs::path& final_path);

// The set of files that a run leaves at the top of its folder, replaced as one. publish():
//   1. `write` puts the whole set into folder/.hone-result, a StagedFolder: synced, then there as a whole.
//      From here on the new set is what the folder holds; who comes next finishes what follows.
//   2. remove `last` from the top, fsync the folder
//   3. rename every file of the set but `last` to the top, fsync both folders
//   4. rename `last`, fsync both folders
//   5. remove folder/.hone-result, fsync the folder
// A replaced file's mode is kept; a link at the top is replaced, not what it leads to.
// A reader that knows nothing of hone sees the old set, a set without `last`, or the new set. One of hone's
// calls finish_publishing_before_reading() first.
void publish(const fs::path& folder, const std::function<void(const fs::path&)>& write,
             std::string_view last);

// Steps 2 to 5 of a publish() that was cut short, or the removal of one that did not finish step 1; nothing
// where none was. For the only process that writes there (a run's start).
void finish_publishing(const fs::path& folder, std::string_view last);

// The same for a reader, only where something is half in place. While another process holds the folder
// (FolderLock) it waits half a second for it, then UserError. A `folder` that a killed StagedFolder moved
// away is put back.
void finish_publishing_before_reading(const fs::path& folder, std::string_view last);

}  // namespace hone::base
