"""Four ranks of a training job, all in one rack or nowhere: the label ``job`` says who belongs together."""

import bayplan

RACK = bayplan.Label("example.com/rack")


@bayplan.gang
def ranks(pod):
    if job := pod.labels.get("job"):
        return bayplan.Gang(job, size=4, within=RACK, timeout_seconds=60)
