// dtune image: this program as a container image.

#include <algorithm>
#include <memory>

#include "app/command.h"
#include "app/machine.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/file.h"
#include "dtune/base/json.h"
#include "dtune/submit/oci_image.h"
#include "dtune/submit/templates.h"
#include "dtune/train/plugin.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

struct ImageRequest {
  std::string output;
  std::vector<std::string> add;
  bool torch = false;
};

TarEntry text_entry(const std::string& text) {
  TarEntry entry;
  entry.text = text;
  return entry;
}

TarEntry folder_entry(int mode, int owner) {
  TarEntry entry;
  entry.kind = TarEntry::Kind::folder;
  entry.mode = mode;
  entry.owner = owner;
  return entry;
}

constexpr int kUser = 65532;  // "nonroot" of many images

// What a program expects of a system that has no other.
TarEntries system_entries() {
  TarEntries entries;
  entries["etc/passwd"] = text_entry(
      "root:x:0:0:root:/root:/sbin/nologin\n"
      "dtune:x:65532:65532:dtune:/tmp:/sbin/nologin\n");
  entries["etc/group"] = text_entry("root:x:0:\ndtune:x:65532:\n");
  entries["etc/nsswitch.conf"] = text_entry("hosts: files dns\n");
  entries["tmp/"] = folder_entry(01777, 0);
  entries["study/"] = folder_entry(0755, kUser);
  return entries;
}

// The libraries that this process has, with LibTorch once it is loaded.
TarEntries libraries(bool torch) {
  if (torch) load_engine();
  const std::vector<std::string> loaded = loaded_libraries();
  const auto own = std::ranges::find_if(loaded, [](const std::string& name) {
    return name.ends_with("/libdtune_train.so");
  });
  return library_entries(
      loaded, own == loaded.end() ? fs::path() : fs::path(*own).parent_path());
}

ImageOptions describe_image(const ImageRequest& request) {
  ImageOptions image;
  image.name = DTUNE_VERSION;
  TarEntries base = libraries(request.torch);
  const std::string folders = library_path(base);
  base.merge(system_entries());
  TarEntries program;
  TarEntry& file = program["usr/local/bin/dtune"];
  file.kind = TarEntry::Kind::copy;
  file.source = own_program();
  file.mode = 0755;
  // What changes most often lies above the rest.
  image.layers = {std::move(base), std::move(program)};
  if (!request.add.empty()) {
    TarEntries added;
    for (const std::string& path : request.add) add_files(added, path);
    image.layers.push_back(std::move(added));
  }
  image.start = {"/usr/local/bin/dtune"};
  image.environment = {"PATH=/usr/local/bin", "HOME=/tmp"};
  if (!folders.empty()) {
    image.environment.push_back("LD_LIBRARY_PATH=" + folders);
  }
  image.user = fmt::format("{0}:{0}", kUser);
  image.folder = "/study";
  return image;
}

// For a LibTorch with CUDA, which is not of this machine.
fs::path write_containerfile(const fs::path& output) {
  fs::path file = output;
  file.replace_extension(".Containerfile");
  TemplateValues values;
  values.texts["version"] = DTUNE_VERSION;
  write_file_atomic(
      file, render_template(built_in_template("Containerfile.sh"), values),
      false);
  return file;
}

int make_image(const Console& console, const ImageRequest& request) {
  if (request.output.empty()) {
    throw Error(ErrorKind::config,
                "dtune image: --output is missing (a new folder, or FILE.tar)");
  }
  const fs::path output = fs::path(request.output).lexically_normal();
  const ImageOptions image = describe_image(request);
  const std::string digest = write_image(output, image);
  const fs::path containerfile = write_containerfile(output);
  if (console.json) {
    console.print(json_text(nlohmann::ordered_json{{"image", output.string()},
                                                   {"digest", digest},
                                                   {"containerfile",
                                                    containerfile.string()}},
                            2) +
                  '\n');
    return kExitOk;
  }
  const bool archive = output.extension() == ".tar";
  console.line(fmt::format("{}  {}", output.string(), digest));
  console.notice(
      fmt::format("next     skopeo copy {}:{}:{} docker://REGISTRY/dtune:{}\n"
                  "         {} builds one with CUDA (podman build -f)",
                  archive ? "oci-archive" : "oci", output.string(), image.name,
                  image.name, containerfile.string()));
  return kExitOk;
}

}  // namespace

Action declare_image(Arguments& arguments) {
  auto request = std::make_shared<ImageRequest>();
  arguments.describe(
      "Writes this program and the libraries that it needs as a container "
      "image (an OCI layout, or an archive of one), for Kubernetes, SageMaker "
      "and others. No other program and no root is needed; the same program "
      "gives the same digest. It runs as user 65532. Beside it a Containerfile "
      "is written that builds an image with CUDA.");
  arguments.option("--output", request->output, "PATH",
                   "A new folder, or an archive: FILE.tar.", Complete::file);
  arguments.flag("--torch", request->torch,
                 "With LibTorch: needed to train networks, not for recipes "
                 "with a command.");
  arguments.option("--add", request->add, "PATH",
                   "A file or folder that goes in as well, at the same place: "
                   "data, the program of a command; may be given several "
                   "times.");
  arguments.json("As JSON: image, digest.");
  arguments.example("dtune image --torch --output dtune.tar",
                    "an archive for skopeo copy oci-archive:dtune.tar");
  return [request](const Console& console) {
    return make_image(console, *request);
  };
}

}  // namespace dtune
