// Pods and Jobs as `kubectl get ... -o json` lists them.
#pragma once

#include <string>
#include <vector>

namespace dtune {

struct ClusterObject {
  std::string kind;  // "Pod", "Job"
  std::string name;
  std::string job;     // a pod's Job; ""
  std::string part;    // "coordinator", "agent"
  std::string phase;   // a pod's: "pending", "running", "waiting", ...
  std::string reason;  // "Unschedulable", "ImagePullBackOff", "Suspended"; ""
  bool over = false;   // a Job that has succeeded, or failed for good

  std::string state() const;  // "pending: Unschedulable"
};

// Throws Error(temporary) where the text is no such list.
std::vector<ClusterObject> read_kubectl_list(const std::string& text);

}  // namespace dtune
