import HTTPEngine

/// `/metrics`: the server's numbers for monitoring, in the format OpenMetrics.
struct MetricsResource: Sendable {
    let metrics: ServerMetrics

    func get(_ request: Request, _ insight: Insight) throws -> Answer {
        .later { [metrics] in
            // Elsewhere: the requests of this thread needn't wait.
            let text = await Task.detached { await metrics.text(for: insight) }.value
            return Response(
                status: 200,
                headers: [
                    .init("Content-Type", .constant(OpenMetricsText.contentType)), .init("Cache-Control", "private, no-store"),
                ],
                body: .array(text))
        }
    }
}
