"""The certificates and keys of one control plane, made on the spot."""

from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

SERVER_NAMES = ("localhost", "127.0.0.1", "203.0.113.1")
ADMINISTRATORS = "system:masters"


class Certificates:
    """Files below ``directory``: the authority, a server's pair, an administrator's pair, the service accounts' key."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self.authority_key = trustme.CA(organization_name="test control plane")
        self.authority = directory / "authority.pem"
        self.server = directory / "server.pem"
        self.server_key = directory / "server-key.pem"
        self.administrator = directory / "administrator.pem"
        self.administrator_key = directory / "administrator-key.pem"
        self.service_accounts = directory / "service-accounts.pem"
        self.authority_key.cert_pem.write_to_path(self.authority)
        server = self.authority_key.issue_cert(*SERVER_NAMES)
        server.cert_chain_pems[0].write_to_path(self.server)
        server.private_key_pem.write_to_path(self.server_key)
        administrator = self.authority_key.issue_cert(
            "administrator.invalid",  # a certificate without any name has an empty extension that Go refuses
            common_name="administrator",
            organization_name=ADMINISTRATORS,
        )
        administrator.cert_chain_pems[0].write_to_path(self.administrator)
        administrator.private_key_pem.write_to_path(self.administrator_key)
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.service_accounts.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        for secret in (self.server_key, self.administrator_key, self.service_accounts):
            secret.chmod(0o600)
