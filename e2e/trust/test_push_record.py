"""What push_record.py promises: the judge is given every request, however many come between two looks. More are sent here
than the simulator itself keeps, over HTTP/1.1 and without a credential: FCM refuses them, and they count all the same.
"""
import http.client
import json
import ssl

from e2e import harness
from e2e.trust.push_record import Record, parsed

KEPT = 2_000             # of GET /requests
BETWEEN = (1, 2_500, 0, 700)


def send(connection, numbers):
    for number in numbers:
        body = json.dumps({"message": {"token": f"device-{number}", "data": {"type": "badge", "count": str(number)}}})
        connection.request("POST", "/v1/projects/none/messages:send", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 401:
            raise harness.HarnessError(f"FCM without a credential: {answer.status}")


def drawn():
    """An alert that the app draws, as it arrives: without a notification."""
    alert = json.dumps({"title": "T", "body": "B", "count": 7})
    message = {"token": "device", "data": {"id": "i-d", "badgeVersion": "1", "alert": alert}, "android": {"priority": "high"}}
    return parsed({"service": "fcm", "payload": json.dumps({"message": message}), "headers": [], "at": "2030-01-01T00:00:00.000Z",
                   "connection": 1, "status": 200, "reason": None, "fault": None})


def main():
    options = harness.begin(harness.arguments(__doc__, short="the same"))
    report = harness.Report()
    with harness.temporary_folder("campanile-record-") as folder:
        simulator = harness.Simulator(options.binary, folder, options.seed, strict=False)
        trust = ssl.create_default_context(cafile=f"{simulator.folder}/simulator-ca.pem")
        connection = http.client.HTTPSConnection("127.0.0.1", simulator.port, timeout=harness.REQUEST_SECONDS, context=trust)
        record, sent = Record(simulator), 0
        for count in BETWEEN:
            send(connection, range(sent, sent + count))
            sent += count
            record.read()
            report.check("seen", [one.badge for one in record.requests] == list(range(sent)),
                         lambda: f"{sent} were sent, and the record has {len(record.requests)}")
        requests = record.complete()
        report.check("tokens", [one.token for one in requests] == [f"device-{number}" for number in range(sent)],
                     "the devices are others than those that were sent to")
        report.check("answers", {(one.service, one.status, one.kind) for one in requests[1:]} == {("fcm", 401, "sync")},
                     "the answers are others than those that were given")
        alert = drawn()
        report.check("drawn by the app", (alert.kind, alert.badge, alert.notification) == ("alert", 7, "id"), lambda: f"it is taken for {alert}")
        kept = len(simulator.call("GET", f"/requests?limit={sent}")["requests"])
        report.check("control", kept == KEPT < max(BETWEEN), f"the simulator keeps {kept}: this shows nothing")
        with open(simulator.record, "r+b") as file:
            file.truncate(1)
        try:
            Record(simulator).complete()
            report.check("control", False, "a record that lacks requests is taken for whole")
        except harness.HarnessError:
            report.count("control")
    print(f"test_push_record: {sum(report.checked.values())} checks, {len(report.wrong)} wrong")
    return report.verdict()


if __name__ == "__main__":
    harness.run(main)
