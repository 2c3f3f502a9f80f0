"""gRPC over TLS: the port that speaks HTTPS speaks it too.

usage: kserve_encrypted.py https://HOST:PORT

SSL_CERT_FILE names the server's certificate.
"""

import os

import tritonclient.grpc as grpc_client
from checks import equal, raises, run
from tritonclient.utils import InferenceServerException


def test_grpc_is_spoken_over_tls(base):
    address = base.removeprefix("https://")
    certificate = os.environ["SSL_CERT_FILE"]
    with grpc_client.InferenceServerClient(
        address, ssl=True, root_certificates=certificate
    ) as client:
        assert client.is_server_live() and client.is_server_ready()
        equal(client.get_server_metadata().name, "terrace")
        equal(len(client.get_model_repository_index().models), 0)
        error = raises(
            InferenceServerException, ["no model"], lambda: client.get_model_config("none")
        )
        equal(error.status(), "StatusCode.NOT_FOUND")


if __name__ == "__main__":
    run(globals())
