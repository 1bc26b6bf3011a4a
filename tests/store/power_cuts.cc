#include <fstream>
#include <string_view>
#include <utility>

#include "store/faulty_disk.h"

namespace dtune::test {
namespace {

void write_into(std::string& content, int64_t offset, std::string_view bytes) {
  const auto end = static_cast<size_t>(offset) + bytes.size();
  if (content.size() < end) content.resize(end, '\0');
  content.replace(static_cast<size_t>(offset), bytes.size(), bytes);
}

void apply_to(std::string& content, const DiskCall& call, size_t part) {
  if (call.action == DiskAction::truncate) {
    content.resize(static_cast<size_t>(call.offset), '\0');
  } else {
    write_into(content, call.offset,
               std::string_view(call.bytes).substr(0, part));
  }
}

std::string survivor_of_all(std::string content,
                            const std::vector<DiskCall>& pending) {
  for (const DiskCall& one : pending) {
    apply_to(content, one, one.bytes.size());
  }
  return content;
}

// One outcome of a power cut: all of the calls, none, the first ones, or any
// of them; the last one that is kept may be torn.
std::string survivor(std::string content, const std::vector<DiskCall>& pending,
                     Rng& rng) {
  const uint64_t kind = rng.below(4);
  const size_t first = kind == 0   ? pending.size()
                       : kind == 1 ? 0
                                   : rng.below(pending.size() + 1);
  std::vector<const DiskCall*> kept;
  for (size_t i = 0; i < pending.size(); ++i) {
    if (kind == 3 ? rng.below(2) == 0 : i < first) kept.push_back(&pending[i]);
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    const bool torn = kind > 1 && i + 1 == kept.size();
    apply_to(
        content, *kept[i],
        torn ? rng.below(kept[i]->bytes.size() + 1) : kept[i]->bytes.size());
  }
  return content;
}

}  // namespace

void PowerCuts::apply(const DiskCall& call) {
  switch (call.action) {
    case DiskAction::create: {
      File made{.there = true};
      const File& before = files_[call.file];
      if (before.safe)
        made.former = survivor_of_all(before.kept, before.pending);
      if (before.former) made.former = before.former;
      files_[call.file] = std::move(made);
      return;
    }
    case DiskAction::remove:
      files_[call.file].there = false;
      return;
    case DiskAction::write:
    case DiskAction::truncate:
      files_[call.file].pending.push_back(call);
      return;
    case DiskAction::sync: {
      File& file = files_[call.file];
      if (!call.failed) {
        file.kept = survivor_of_all(std::move(file.kept), file.pending);
      }
      file.pending.clear();
      return;
    }
    case DiskAction::sync_folder:
      std::erase_if(files_,
                    [](const auto& entry) { return !entry.second.there; });
      for (auto& [name, file] : files_) {
        file.safe = true;
        file.former.reset();
      }
  }
}

void PowerCuts::cut(Rng& rng, const std::filesystem::path& folder) const {
  for (const auto& [name, file] : files_) {
    const bool entry_as_now = rng.below(2) == 0;
    const bool found =
        entry_as_now ? file.there : file.safe || file.former.has_value();
    if (!found) continue;
    std::ofstream out(folder / name, std::ios::binary);
    out << (file.former && !entry_as_now
                ? *file.former
                : survivor(file.kept, file.pending, rng));
  }
}

}  // namespace dtune::test
