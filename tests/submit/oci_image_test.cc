// Images, read back by other programs.
#include "dtune/submit/oci_image.h"

#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/submit/tar_file.h"
#include "dtune/submit/tool.h"

using namespace dtune;  // NOLINT: a test

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

TarEntry file_entry(const std::string& text, int mode = 0644) {
  TarEntry entry;
  entry.text = text;
  entry.mode = mode;
  return entry;
}

ImageOptions small_image() {
  ImageOptions image;
  image.name = "1.0";
  image.layers = {{{"etc/passwd", file_entry("root\n")}},
                  {{"usr/bin/run", file_entry("#!/bin/sh\n", 0755)}}};
  image.start = {"/usr/bin/run"};
  image.environment = {"PATH=/usr/bin"};
  image.user = "65532:65532";
  image.folder = "/";
  return image;
}

Json json_in(const fs::path& file) { return Json::parse(read_file(file)); }

// The file that a descriptor names, after a look at its size and digest.
fs::path blob_of(const fs::path& layout, const Json& descriptor) {
  const std::string digest = descriptor["digest"];
  REQUIRE(digest.starts_with("sha256:"));
  const fs::path file = layout / "blobs" / "sha256" / digest.substr(7);
  CHECK(fs::file_size(file) == descriptor["size"].get<uint64_t>());
  const std::string said = tool_output({"sha256sum", file.string()});
  CHECK(said.substr(0, 64) == digest.substr(7));
  return file;
}

}  // namespace

TEST_CASE("tar lists an archive: sorted, without times and owners") {
  const TemporaryDirectory folder;
  TarEntries entries;
  entries["b/" + std::string(90, 'x') + "/" + std::string(80, 'y')] =
      file_entry("long\n");
  entries["a"] = file_entry("1\n", 0755);
  TarEntry tmp;
  tmp.kind = TarEntry::Kind::folder;
  tmp.mode = 01777;
  tmp.owner = 7;
  entries["tmp/"] = tmp;
  const fs::path file = folder.path() / "a.tar";
  const WrittenFile written = write_tar(file, entries);
  CHECK(fs::file_size(file) == written.bytes);
  CHECK(tool_output({"sha256sum", file.string()}).substr(0, 64) ==
        written.digest);
  std::istringstream lines(
      tool_output({"tar", "--utc", "--full-time", "-tvf", file.string()}));
  std::vector<std::string> listed;
  for (std::string line; std::getline(lines, line);) listed.push_back(line);
  REQUIRE(listed.size() == 5);
  CHECK(listed[0] == "-rwxr-xr-x 0/0               2 1970-01-01 00:00:00 a");
  CHECK(listed[1].starts_with("drwxr-xr-x 0/0"));
  CHECK(listed[3].ends_with("/" + std::string(80, 'y')));
  CHECK(listed[4].starts_with("drwxrwxrwt 7/7"));
  CHECK(tool_output({"tar", "-xOf", file.string(), "a"}) == "1\n");
}

TEST_CASE("a path that no archive can have is refused") {
  const TemporaryDirectory folder;
  TarEntries entries;
  entries[std::string(300, 'x')] = file_entry("");
  CHECK_THROWS_AS(write_tar(folder.path() / "a.tar", entries), Error);
  TarEntries gone;
  gone["a"].kind = TarEntry::Kind::copy;
  gone["a"].source = folder.path() / "not-there";
  CHECK_THROWS_AS(write_tar(folder.path() / "b.tar", gone), Error);
}

TEST_CASE("SHA-256 as FIPS 180-4 has it") {
  CHECK(sha256_of("abc") ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("an image is a layout whose parts name one another by digest") {
  const TemporaryDirectory folder;
  const fs::path layout = folder.path() / "image";
  const std::string digest = write_image(layout, small_image());
  CHECK(json_in(layout / "oci-layout")["imageLayoutVersion"] == "1.0.0");
  const Json index = json_in(layout / "index.json");
  REQUIRE(index["manifests"].size() == 1);
  CHECK(index["manifests"][0]["digest"] == digest);
  CHECK(index["manifests"][0]["annotations"]
             ["org.opencontainers.image.ref.name"] == "1.0");
  const Json manifest = json_in(blob_of(layout, index["manifests"][0]));
  const Json config = json_in(blob_of(layout, manifest["config"]));
  CHECK(config["config"]["User"] == "65532:65532");
  CHECK(config["config"]["Entrypoint"] == Json{"/usr/bin/run"});
  REQUIRE(manifest["layers"].size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    blob_of(layout, manifest["layers"][i]);
    CHECK(config["rootfs"]["diff_ids"][i] == manifest["layers"][i]["digest"]);
  }
}

TEST_CASE("the same content gives the same image, as a folder and an archive") {
  const TemporaryDirectory folder;
  const std::string digest = write_image(folder.path() / "a", small_image());
  CHECK(write_image(folder.path() / "b", small_image()) == digest);
  const fs::path archive = folder.path() / "c.tar";
  CHECK(write_image(archive, small_image()) == digest);
  write_image(folder.path() / "d.tar", small_image());
  CHECK(read_file(archive) == read_file(folder.path() / "d.tar"));
  CHECK_FALSE(fs::exists(archive.string() + ".partial"));
  fs::create_directory(folder.path() / "out");
  tool_output(
      {"tar", "-xf", archive.string(), "-C", (folder.path() / "out").string()});
  CHECK(json_in(folder.path() / "out" / "index.json") ==
        json_in(folder.path() / "a" / "index.json"));
  CHECK_THROWS_AS(write_image(archive, small_image()), Error);
}

TEST_CASE("libraries stay where the loader finds them, ours go to one place") {
  const TarEntries entries = library_entries(
      {"/lib/x86_64-linux-gnu/libz.so.1", "/opt/b/../torch/libtorch.so",
       "/home/me/build/lib/dtune/libdtune_train.so"},
      "/home/me/build/lib/dtune");
  CHECK(entries.contains("lib/x86_64-linux-gnu/libz.so.1"));
  CHECK(entries.contains("opt/torch/libtorch.so"));
  CHECK(entries.contains("usr/local/lib/dtune/libdtune_train.so"));
  CHECK(library_path(entries) == "/opt/torch");
  const auto loaded = loaded_libraries();
  CHECK(std::any_of(loaded.begin(), loaded.end(), [](const std::string& name) {
    return name.find("/libc.so") != std::string::npos;
  }));
}
