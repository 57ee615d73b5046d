"""A job on a Ray or Spark cluster of this machine, with the Python of tests/scale-requirements.txt:

    python scale_job.py ray|spark WORKERS MODEL ROWS FOLDER [JSON [SMALL]]

prints the report as JSON; JSON has further arguments of run(); the rows of SMALL are answered before, so that the workers of the
cluster have started. test_python_scale.py and scripts/measure-scale use it."""

import json
import os
import shutil
import sys
import tempfile

# Ray runs workers with niceness 15, which would make other programs of the machine faster than them
os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "RAY_worker_niceness": "0"}


def on_ray(workers):
    """Starts a cluster; returns the module's function, and what stops the cluster."""
    import ray
    import smolrun.ray

    folder = tempfile.mkdtemp(prefix="smol-ray-", dir="/tmp")  # short, for names of sockets
    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, _temp_dir=folder, object_store_memory=100 << 20)
    ray.data.DataContext.get_current().enable_progress_bars = False

    def stop():
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)

    return smolrun.ray, stop


def on_spark(workers):
    """Runs the job on Spark, with an executor of one processor for each worker."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    import smolrun.spark
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master(f"local-cluster[{workers},1,1024]")
        .config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").config("spark.ui.showConsoleProgress", "false")
        .config("spark.task.maxFailures", "1000").config("spark.deploy.maxExecutorRetries", "-1")
        .getOrCreate()
    )  # fmt: skip
    session.sparkContext.setLogLevel("OFF")
    return smolrun.spark, session.stop


def main():
    cluster, workers, model, rows, folder, *more = sys.argv[1:]
    module, stop = {"ray": on_ray, "spark": on_spark}[cluster](int(workers))
    for small in more[1:]:
        module.run(model, small, f"{small}.answers", workers=int(workers), rows_per_part=1)
    report = module.run(model, rows, folder, workers=int(workers), progress=True, **json.loads(more[0] if more else "{}"))
    stop()
    print(json.dumps(vars(report) | {"rows_per_second": report.rows_per_second}), flush=True)


if __name__ == "__main__":
    main()
