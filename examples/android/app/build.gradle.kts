import org.jetbrains.kotlin.gradle.dsl.JvmTarget

plugins {
    id("com.android.application")
    id("org.jetbrains.kotlin.android")
}

// Firebase's names of your project. Without the file the app has no pushes and works otherwise.
if (file("google-services.json").exists()) apply(plugin = "com.google.gms.google-services")

android {
    namespace = "com.example.shop"
    compileSdk = 36

    defaultConfig {
        applicationId = "com.example.shop"
        minSdk = 28
        targetSdk = 35
        versionCode = 1
        // The app_version that the device registers: deep links may need one (min_app_version).
        versionName = "2.1.0"
    }

    buildTypes {
        debug {
            // The emulator's name for the machine that it runs on.
            buildConfigField("String", "WEB_URL", "\"http://10.0.2.2:3000\"")
            buildConfigField("String", "CAMPANILE_URL", "\"http://10.0.2.2:3001\"")
        }
        release {
            buildConfigField("String", "WEB_URL", "\"https://www.example.com\"")
            buildConfigField("String", "CAMPANILE_URL", "\"https://push.example.com\"")
        }
    }

    buildFeatures {
        buildConfig = true
    }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }

    sourceSets {
        named("main") { java { srcDirs("src/main/kotlin") } }
    }
}

kotlin {
    compilerOptions {
        jvmTarget.set(JvmTarget.JVM_17)
    }
}

dependencies {
    implementation(project(":campanile"))
    implementation("dev.hotwire:core:1.3.1")
    implementation("dev.hotwire:navigation-fragments:1.3.1")
    implementation("com.google.android.material:material:1.12.0")
    // 25.1 registers installation IDs; 25.1.2 mends a registration that failed with FID_ALREADY_USED.
    implementation("com.google.firebase:firebase-messaging:25.1.2")
}
