#include "dtune/submit/oci_image.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <link.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/base/json.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr const char* kManifest = "application/vnd.oci.image.manifest.v1+json";
constexpr const char* kConfig = "application/vnd.oci.image.config.v1+json";
constexpr const char* kLayer = "application/vnd.oci.image.layer.v1.tar";

// As images call it.
std::string architecture() {
#if defined(__x86_64__)
  return "amd64";
#elif defined(__aarch64__)
  return "arm64";
#else
  return "unknown";
#endif
}

OrderedJson descriptor(const char* type, const WrittenFile& file) {
  return {{"mediaType", type},
          {"digest", "sha256:" + file.digest},
          {"size", file.bytes}};
}

// Writes one blob after the other, named by what they hold.
class Layout {
 public:
  explicit Layout(const fs::path& folder) : folder_(folder) {
    fs::create_directories(blobs());
    write_file_atomic(folder_ / "oci-layout",
                      R"({"imageLayoutVersion": "1.0.0"})"
                      "\n",
                      false);
  }

  WrittenFile add_layer(const TarEntries& entries) {
    const fs::path partial = blobs() / "partial";
    WrittenFile file = write_tar(partial, entries);
    fs::rename(partial, blobs() / file.digest);
    return file;
  }
  WrittenFile add(const OrderedJson& json) {
    const std::string text = json_text(json, 2) + '\n';
    WrittenFile file{sha256_of(text), text.size()};
    write_file_atomic(blobs() / file.digest, text, false);
    return file;
  }
  void close(const WrittenFile& manifest, const std::string& name) const {
    OrderedJson one = descriptor(kManifest, manifest);
    one["annotations"] = {{"org.opencontainers.image.ref.name", name}};
    one["platform"] = {{"architecture", architecture()}, {"os", "linux"}};
    const OrderedJson index = {{"schemaVersion", 2},
                               {"manifests", OrderedJson::array({one})}};
    write_file_atomic(folder_ / "index.json", json_text(index, 2) + '\n',
                      false);
  }

 private:
  fs::path blobs() const { return folder_ / "blobs" / "sha256"; }

  const fs::path folder_;
};

std::string write_layout(const fs::path& folder, const ImageOptions& options) {
  Layout layout(folder);
  OrderedJson layers = OrderedJson::array();
  OrderedJson contents = OrderedJson::array();
  for (const TarEntries& entries : options.layers) {
    const WrittenFile layer = layout.add_layer(entries);
    layers.push_back(descriptor(kLayer, layer));
    contents.push_back("sha256:" + layer.digest);
  }
  const WrittenFile config =
      layout.add({{"architecture", architecture()},
                  {"os", "linux"},
                  {"config",
                   {{"User", options.user},
                    {"Env", options.environment},
                    {"Entrypoint", options.start},
                    {"WorkingDir", options.folder}}},
                  {"rootfs", {{"type", "layers"}, {"diff_ids", contents}}}});
  const WrittenFile manifest =
      layout.add({{"schemaVersion", 2},
                  {"mediaType", kManifest},
                  {"config", descriptor(kConfig, config)},
                  {"layers", layers}});
  layout.close(manifest, options.name);
  return "sha256:" + manifest.digest;
}

TarEntry copy_of(const fs::path& file, int mode) {
  TarEntry entry;
  entry.kind = TarEntry::Kind::copy;
  entry.source = file;
  entry.mode = mode;
  return entry;
}

std::string without_root(const fs::path& path) {
  return path.lexically_normal().relative_path().string();
}

bool is_searched_by_itself(const std::string& folder) {
  if (folder == "lib" || folder == "usr/lib" || folder == "lib64") return true;
  const bool library =
      folder.starts_with("lib/") || folder.starts_with("usr/lib/");
  return library && folder.ends_with("-linux-gnu");
}

}  // namespace

std::string write_image(const fs::path& output, const ImageOptions& options) {
  if (fs::exists(output)) {
    throw Error(ErrorKind::config,
                fmt::format("{}: exists already (remove it, or choose another "
                            "--output)",
                            output.string()));
  }
  if (output.extension() != ".tar") return write_layout(output, options);
  const fs::path folder = output.string() + ".partial";
  fs::remove_all(folder);
  std::string digest = write_layout(folder, options);
  TarEntries entries;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    entries[fs::relative(entry.path(), folder)] = copy_of(entry.path(), 0644);
  }
  write_tar(output, entries);
  fs::remove_all(folder);
  return digest;
}

TarEntries library_entries(const std::vector<std::string>& loaded,
                           const fs::path& own) {
  constexpr int kExecutable = 0755;
  TarEntries entries;
  for (const std::string& library : loaded) {
    const fs::path path = fs::path(library).lexically_normal();
    const bool ours = path.parent_path() == own.lexically_normal();
    entries[ours ? "usr/local/lib/dtune/" + path.filename().string()
                 : without_root(path)] = copy_of(library, kExecutable);
  }
  return entries;
}

std::string library_path(const TarEntries& entries) {
  std::set<std::string> folders;
  for (const auto& [path, entry] : entries) {
    const std::string folder = fs::path(path).parent_path();
    const bool ours = folder == "usr/local/lib/dtune";
    if (!ours && !is_searched_by_itself(folder)) folders.insert("/" + folder);
  }
  return fmt::format("{}", fmt::join(folders, ":"));
}

void add_files(TarEntries& entries, const fs::path& path) {
  std::error_code error;
  const fs::path root = fs::absolute(path);
  if (fs::is_regular_file(root, error)) {
    entries[without_root(root)] = copy_of(root, 0644);
    return;
  }
  if (!fs::is_directory(root, error)) {
    throw Error(
        ErrorKind::data,
        fmt::format("{}: there is no such file or folder", path.string()));
  }
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file()) {
      entries[without_root(entry.path())] = copy_of(entry.path(), 0644);
    }
  }
}

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> names;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        // The program has no name, and the kernel's own library no file.
        if (info->dlpi_name != nullptr && info->dlpi_name[0] == '/') {
          static_cast<std::vector<std::string>*>(out)->emplace_back(
              info->dlpi_name);
        }
        return 0;
      },
      &names);
  std::ranges::sort(names);
  return names;
}

}  // namespace dtune
