#include "dtune/submit/kubectl_list.h"

#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/json.h"
#include "dtune/base/text.h"

namespace dtune {
namespace {

using Json = nlohmann::json;

// Null where there is none.
const Json& json_at(const Json& object, const char* pointer) {
  static const Json null;
  const Json::json_pointer place(pointer);
  return object.contains(place) ? object.at(place) : null;
}

std::string text_at(const Json& object, const char* pointer) {
  const Json& value = json_at(object, pointer);
  return value.is_string() ? value.get<std::string>() : "";
}

void read_pod(const Json& pod, ClusterObject& out) {
  out.phase = lower_case(text_at(pod, "/status/phase"));
  if (out.phase.empty()) out.phase = "unknown";
  for (const Json& one : json_at(pod, "/status/containerStatuses")) {
    const std::string why = text_at(one, "/state/waiting/reason");
    if (why.empty()) continue;
    out.phase = "waiting";
    out.reason = why;
    return;
  }
  if (out.phase != "pending") return;
  for (const Json& one : json_at(pod, "/status/conditions")) {
    const std::string why = text_at(one, "/reason");
    if (!why.empty()) out.reason = why;
  }
}

void read_cluster_job(const Json& job, ClusterObject& out) {
  if (json_at(job, "/spec/suspend") == true) out.reason = "Suspended";
  for (const Json& one : json_at(job, "/status/conditions")) {
    const std::string type = text_at(one, "/type");
    const bool ended = type == "Complete" || type == "Failed";
    out.over = out.over || (ended && text_at(one, "/status") == "True");
  }
}

}  // namespace

std::string ClusterObject::state() const {
  return reason.empty() ? phase : phase + ": " + reason;
}

std::vector<ClusterObject> read_kubectl_list(const std::string& text) {
  const Json list = try_parse_json(text);
  if (!list.is_object() || !json_at(list, "/items").is_array()) {
    throw Error(ErrorKind::temporary,
                "kubectl: its answer is not a list (try again later)");
  }
  std::vector<ClusterObject> out;
  for (const Json& item : list["items"]) {
    ClusterObject object;
    object.kind = text_at(item, "/kind");
    object.name = text_at(item, "/metadata/name");
    object.job = text_at(item, "/metadata/labels/job-name");
    object.part = text_at(item, "/metadata/labels/dtune~1part");
    if (object.kind == "Job") {
      read_cluster_job(item, object);
    } else {
      read_pod(item, object);
    }
    out.push_back(std::move(object));
  }
  return out;
}

}  // namespace dtune
