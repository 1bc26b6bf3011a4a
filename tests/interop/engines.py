# Kubernetes' schemas (of three versions) accept the manifests of `dtune submit`,
# and moto, which plays AWS, the request for SageMaker by the real aws CLI.
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile

import kubernetes_validate
import yaml
from moto.server import ThreadedMotoServer

VERSIONS = ["1.30.0", "1.34.0", "1.37.0"]
MANIFESTS = [
    "k8s://lab?image=reg/dtune:1",
    "k8s://lab?image=reg/dtune:1&agents=2&cpu=2&memory=4Gi&gpu=1",
    "k8s://lab?image=reg/dtune:1&agents=1&queue=team&pull=login&data=digits"
    "&class=fast&storage=20Gi",
]
RECIPE = """study: interop
command: { run: [sh, -c, "echo step=1 val_accuracy=0.5"], steps: 1 }
space: { lr: { log: [0.001, 0.1] } }
objective: val_accuracy
budget: { trials: 2 }
"""


def run(*words, env=None):
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def check_manifests(dtune, recipe):
    for to in MANIFESTS:
        text = run(dtune, "submit", recipe, "--to", to, "--dry-run")
        documents = list(yaml.safe_load_all(text))
        assert {"Secret", "StatefulSet"} <= {one["kind"] for one in documents}
        for version in VERSIONS:
            for document in documents:
                kubernetes_validate.validate(document, version, strict=True)
    # What is wrong is found.
    documents[-1]["spec"]["backoffLimits"] = 3
    try:
        kubernetes_validate.validate(documents[-1], VERSIONS[-1], strict=True)
    except kubernetes_validate.ValidationError:
        return
    sys.exit("a key that no Job has was accepted")


# Moto knows no stop-training-job: nothing is cancelled.
def check_sagemaker(dtune, recipe, folder):
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    address, port = server.get_host_and_port()
    env = os.environ | {
        "AWS_ENDPOINT_URL": f"http://{address}:{port}",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "XDG_STATE_HOME": str(folder / "state"),
        "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    run("aws", "s3", "mb", "s3://lab", env=env)
    to = (
        "sagemaker://arn:aws:iam::123456789012:role/lab?image=reg/dtune:1"
        "&s3=s3://lab&count=2&time=4h&spot=yes&data=s3://lab/digits"
    )
    run(dtune, "doctor", "--to", to, env=env)
    name = run(dtune, "submit", recipe, "--to", to, env=env).strip()
    job = json.loads(
        run("aws", "sagemaker", "describe-training-job",
            "--training-job-name", name, env=env))
    assert job["ResourceConfig"]["InstanceCount"] == 2
    assert job["StoppingCondition"]["MaxRuntimeInSeconds"] == 4 * 3600
    channels = {one["ChannelName"]: one["DataSource"]["S3DataSource"]["S3Uri"]
                for one in job["InputDataConfig"]}
    assert channels["data"] == "s3://lab/digits"
    # The key is where its channel says, and nowhere in the request.
    key = run("aws", "s3", "cp", channels["dtune"] + "/job.key", "-", env=env)
    assert key.count("dtune-job-") >= 2
    for line in key.splitlines():
        assert line.split()[-1] not in json.dumps(job)
    stored = run("aws", "s3", "cp", channels["dtune"] + "/recipe.yaml", "-", env=env)
    assert yaml.safe_load(stored)["study"] == "interop"
    run(dtune, "status", name, env=env)
    server.stop()


def main():
    dtune = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        recipe = folder / "r.yaml"
        recipe.write_text(RECIPE)
        check_manifests(dtune, str(recipe))
        check_sagemaker(dtune, str(recipe), folder)
    print(f"engines: Kubernetes {', '.join(VERSIONS)} and moto accept what dtune submits")


main()
