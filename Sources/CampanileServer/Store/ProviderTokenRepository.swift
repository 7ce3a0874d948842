package import Push

/// The table `provider_tokens`: what is presented to Apple now, so that a restart presents the same.
protocol ProviderTokenReading {
    func tokens(team: String) throws -> [StoredProviderToken]
}

protocol ProviderTokenRepository: ProviderTokenReading {
    /// Where several nodes share the store, the team's other tokens of the same time stay.
    func replace(team: String, with tokens: [StoredProviderToken]) throws

    /// Makes the team's other renewals wait until the transaction ends.
    func lock() throws
}

extension Store: ProviderTokenStore {
    package func load(team: String) async throws -> [StoredProviderToken] {
        try await read { try $0.providerTokens.tokens(team: team) }
    }

    package func replace(team: String, with tokens: [StoredProviderToken]) async throws {
        try await write { transaction in
            try transaction.providerTokens.lock()
            let stored = try transaction.providerTokens.tokens(team: team)
            // Another node has renewed them.
            guard stored.allSatisfy({ known in tokens.allSatisfy { known.issuedAt <= $0.issuedAt } }) else { return }
            try transaction.providerTokens.replace(team: team, with: tokens)
        }
    }

    package func renew(_ token: StoredProviderToken, after issuedAt: Int64?) async throws -> [StoredProviderToken] {
        try await write { transaction in
            try transaction.providerTokens.lock()
            let stored = try transaction.providerTokens.tokens(team: token.teamID)
            if let newest = stored.map(\.issuedAt).max(), newest > issuedAt ?? .min { return stored }
            try transaction.providerTokens.replace(team: token.teamID, with: [token])
            return [token]
        }
    }
}
